"""The part of Numba's compiler that kernels need: what is left out here takes a third of the time of a first fit.

Nothing of it changes what a kernel computes. It uses classes of Numba that are not part of its public interface, as
:mod:`structsvm.common.kernel` does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.inline_closurecall import InlineWorker
from numba.core.untyped_passes import InlineInlinables

_LEFT_OUT = {
    "DeadBranchPrune", "FindLiterallyCalls", "InlineClosureLikes", "InlineOverloads", "LiteralUnroll",
    "LiteralPropagationSubPipelinePass", "MakeFunctionToJitFunction", "RewriteDynamicRaises",
    "RewriteSemanticConstants", "WithLifting",
}  # fmt: skip
"""Passes for what no kernel has: closures, contexts, arguments that are None, loops over mixed tuples."""


def _lean(manager: Any, *left_out: str) -> Any:
    """Return the manager without the passes that are left out, and with our own for inlining."""
    manager.passes = [
        (_InlineKernels if each is InlineInlinables else each, text)
        for each, text in manager.passes
        if each.__name__ not in _LEFT_OUT and each.__name__ not in left_out
    ]
    return manager


class _Flags(Flags):
    """Flags that are compared at once: Numba looks at all forty for each operation whose type it infers."""

    _HASH = hash(tuple(sorted(Flags.options)))  # that of Flags with any values

    def __hash__(self) -> int:
        return self._HASH

    def __eq__(self, other: object) -> bool:
        return self._values == getattr(other, "_values", None) or super().__eq__(other)


class _Owned(ir.Block):
    """A block that needs no copies: nobody else has it."""

    def __deepcopy__(self, memo: Any) -> _Owned:
        return self


class _Worker(InlineWorker):
    """Inlines a function without copying it twice, once for each of its blocks with all its variables."""

    def run_untyped_passes(self, func: Any, enable_ssa: bool = False) -> Any:
        self._compiler_pipeline = lambda state: _lean(DefaultPassBuilder.define_untyped_pipeline(state))
        found = super().run_untyped_passes(func, enable_ssa)  # made for this call
        for block in found.blocks.values():
            block.__class__ = _Owned
        return found


@register_pass(mutates_CFG=True, analysis_only=False)
class _InlineKernels(InlineInlinables):
    _name = "inline_kernels"

    def _do_work(self, state: Any, work_list: Any, block: Any, i: int, expr: Any, inline_worker: Any) -> Any:
        inline_worker.__class__ = _Worker
        return super()._do_work(state, work_list, block, i, expr, inline_worker)


def _optimize_functions(codegen: Any, module: Any) -> None:
    """Run the passes per function on those that have a body; Numba sets them up for each one that is declared."""
    for function in module.functions:
        if not function.is_declaration:
            passes, builder = codegen._function_pass_manager()
            passes.run(function, builder)


class Pipeline(CompilerBase):
    """The passes that kernels need: each of the others analyses the function again."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.state.flags = _Flags(self.state.flags)

    def define_pipelines(self) -> list[Any]:
        library = self.state.targetctx.codegen().create_library(self.state.func_id.func_qualname)
        library.enable_object_caching()
        library._optimize_functions = partial(_optimize_functions, library._codegen)
        self.state.library = library
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        # expressions of whole arrays are rewritten as loops, which make arrays
        _lean(manager, *([] if self.state.flags.nrt else ["NopythonRewrites"]))
        manager.finalize()
        return [manager]
