"""What a call, an answer and an experiment look like, and parts that every other folder of the service may use."""
