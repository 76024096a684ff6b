"""A simulated user who also stops after documents without a click, as no user of the package does."""

from structsvm.online.users import CascadeUser
from structsvm.protocols import ClickTables


class ImpatientUser(CascadeUser):
    """Cascade user who stops after any document."""

    def tables(self, length: int) -> ClickTables:
        """Return the tables of the model, each (n_grades, length)."""
        click, stop, _ = super().tables(length)
        return ClickTables(click, stop, stop)
