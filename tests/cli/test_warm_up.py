"""``structsvm warm-up`` says where compiled code is kept, and a verbose fit that it compiles."""

from structsvm.cli import main, warm_up


def test_it_says_where_code_is_kept_and_goes_on_without_an_extra(capsys, monkeypatch):
    import structsvm.trainers.row_kernels  # noqa: F401

    def trees():
        raise ImportError("lightgbm: the package is not installed")

    done = []
    monkeypatch.setattr(
        warm_up, "steps", lambda: [("trees", trees), ("clicks", lambda: done.append("clicks"))]
    )
    assert main(["warm-up"]) == 0
    assert done == ["clicks"]
    out, err = capsys.readouterr()
    assert "compiled 0 functions, kept in " in out
    assert "left out trees: lightgbm: the package is not installed\n" in err


def test_nothing_is_remarked_of_the_made_rows(caplog):
    next(step for name, step in warm_up.steps() if "CV" in name)()
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


def test_without_a_folder_to_write_to_it_is_an_error(monkeypatch, capsys):
    from structsvm.common import kernel

    monkeypatch.setattr(warm_up, "steps", list)
    monkeypatch.setattr(kernel, "kept_in", lambda: None)
    assert main(["warm-up"]) == 2
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err
