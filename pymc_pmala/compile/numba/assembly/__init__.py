"""Most of a written function as machine code without numba's front end.

Numba takes some 10 ms for each line: it infers types, counts references and emits code for
arrays of any layout. What the writer writes is mostly plain arithmetic in nested loops, which is
translated to LLVM's language directly.
"""

from pymc_pmala.compile.numba.assembly.emitter import Library, ScalarFunction
from pymc_pmala.compile.numba.assembly.linking import without_gaps
from pymc_pmala.compile.numba.assembly.regions import assemble
from pymc_pmala.compile.numba.assembly.types import ArrayType

__all__ = ["ArrayType", "Library", "ScalarFunction", "assemble", "without_gaps"]
