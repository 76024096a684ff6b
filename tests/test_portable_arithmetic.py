"""No result depends on the processor: expressions that are not allowed in folders that compute results."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "structsvm"
ROOMS = ("trainers", "qp", "oracles", "estimators", "features", "metrics", "readers", "clicks", "online")

BLAS = {"dot", "vdot", "inner", "matmul", "tensordot", "einsum"}
FUNCTIONS = {
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "power",
    "logaddexp",
    "tanh",
    "sin",
    "cos",
    "hypot",
    "cbrt",
    "arctan",
    "logspace",
    "geomspace",
    "float_power",
}
"""NumPy's and the C library's forms of these differ between processors."""
EXACT = {"LinAlgError"}

ALLOWED = {
    "qp/convex.py": "solves with Clarabel, whose own products are LAPACK's",
    "qp/cvxpy.py": "solves with Clarabel, whose own products are LAPACK's",
    "qp/cone.py": "the rank of the rows of a cone decides whether they are refused, and bounds a multiplier from above",
    "trainers/ordinal.py": "states the problem for cvxpy",
    "oracles/squared_pairs.py": "sorts in a kernel, where argsort is Numba's own",
    "estimators/tree.py": "products of sparse leaf columns, which SciPy adds in the order of the entries",
    "estimators/fusion.py": "products of sparse bin columns, which SciPy adds in the order of the entries",
    "estimators/linear.py": "products of sparse rows, which SciPy adds in the order of the entries",
    "features/word_counts.py": "products of sparse word counts, which SciPy adds in the order of the entries",
    "features/word_features.py": "products of sparse word counts, which SciPy adds in the order of the entries",
    "estimators/baselines.py": "products of sparse word counts, which SciPy adds in the order of the entries",
    "online/arena/strengths.py": "products of sparse gradients, which SciPy adds in the order of the entries",
    "online/statistics/click_weights.py: np.einsum": "minimised by SciPy, whose own products are LAPACK's",
    "online/statistics/conversions.py: np.logaddexp": "adds SciPy's beta functions, whose last digits may differ, too",
    "online/statistics/sample_size.py: math.log2": "a number of queries, which is rounded up",
    "trainers/row_kernels.py: queries @ stored": "which features a query has: truth values",
}


def offences(source: str) -> list[str]:
    """Return the expressions of a file that depend on the processor, with their lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
        if isinstance(node, ast.keyword) and node.arg == "fastmath":
            flags = node.value
            names = (
                {e.value for e in flags.elts if isinstance(e, ast.Constant)}
                if isinstance(flags, ast.Set)
                else {"all"}
            )
            if names - {"nnan", "ninf", "nsz"}:
                found.append(f"{flags.lineno}: fastmath {sorted(names)}")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not _exact(node):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
        is_sort = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "argsort"
        if is_sort and not any(k.arg == "kind" for k in node.keywords):
            found.append(f"{node.lineno}: argsort without kind, whose order of ties differs")
        if not isinstance(node, ast.Attribute):
            continue
        of = node.value
        numpy = isinstance(of, ast.Name) and of.id in ("np", "numpy")
        if numpy and node.attr in BLAS | FUNCTIONS | {"argpartition", "partition"}:
            found.append(f"{node.lineno}: np.{node.attr}")
        if isinstance(of, ast.Name) and of.id == "math" and node.attr in FUNCTIONS | {"pow"}:
            found.append(f"{node.lineno}: math.{node.attr}")
        if isinstance(of, ast.Attribute) and of.attr == "linalg" and node.attr not in EXACT:
            found.append(f"{node.lineno}: linalg.{node.attr}")
    return found


def _exact(power: ast.BinOp) -> bool:
    """Return whether a power is a square, or has constants or an integer as operands."""
    left, right = (one.value if isinstance(one, ast.Constant) else None for one in (power.left, power.right))
    return right == 2 or isinstance(left, int) or (left is not None and right is not None)


def offences_in(path):
    """Return the offences of a file of the package, without the expressions that are allowed."""
    name, lines = path.relative_to(PACKAGE).as_posix(), offences(path.read_text())
    return name, [line for line in lines if f"{name}: {line.partition(': ')[2]}" not in ALLOWED]


def files():
    for room in ROOMS:
        path = PACKAGE / room
        yield from [path] if path.suffix else sorted(path.rglob("*.py"))


def test_no_result_depends_on_the_processor():
    found = {}
    for path in files():
        name, bad = offences_in(path)
        if name not in ALLOWED and bad:
            found[name] = bad
    assert not found, "use structsvm.common.portable, or give a reason above"


def test_every_exception_is_needed():
    for allowed in ALLOWED:
        name, _, line = allowed.partition(": ")
        assert any(line in found for found in offences((PACKAGE / name).read_text())), allowed


@pytest.mark.parametrize(
    "line",
    [
        "w = X @ v",
        "w = np.dot(X, v)",
        "w = np.linalg.norm(v)",
        "w = np.exp(v)",
        "w = math.log(v)",
        "w = np.hypot(a, b)",
        "Cs = np.logspace(-3, 3, 13)",
        "order = np.argsort(v)",
        "top = np.argpartition(v, 3)",
        *(
            f"@kernel(fastmath={flags})\ndef f(): pass"
            for flags in ("True", "{'reassoc'}", "{'contract', 'nsz'}")
        ),
    ],
)
def test_offences_are_detected(line):
    assert offences(line)
    assert not offences(
        "w = np.outer(a, b) + np.argsort(v, kind='stable')\n@kernel(fastmath={'nnan'})\ndef f(): pass"
    )
