"""Learning to rank with structural SVMs: exact optimum, with a certificate, at memory speed."""
