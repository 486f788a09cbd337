"""The fixtures `refold_run`, `refold_command` and `refold_models`, and what else tests use.

A test's programs and requests flow in; recordings flow out on the first run, and from them replays.
`refold.pytest_plugin` starts and ends all this. Imports `refold.api`, `proxy`, `programs`, `replay`
and the folders below them. Rules: CONTRACT.md §13.10 to §13.15.

    refold_run       a call that records a run, or replays it
    refold_command   a command that is recorded, or replayed
    refold_models    a proxy between a test's clients and their models
    session_proxy    leads clients that were made earlier to that proxy
    desks            the desks of that proxy
    reproduce        how a run of a test is named on the command line
    samples          records a test several times, for a snapshot of all of them
    summary          what stops several tests, said once
    kept             recordings that no test uses, and how old others are
"""

from refold.engine.lazy import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from refold.engine.models.scripted import FunctionModel as FunctionModel
    from refold.engine.models.scripted import ScriptedModel as ScriptedModel
    from refold.engine.ports.clock import FixedClock as FixedClock
    from refold.testing.refold_command import RanCommand as RanCommand
    from refold.testing.refold_command import RefoldCommand as RefoldCommand
    from refold.testing.refold_models import RefoldModels as RefoldModels
    from refold.testing.refold_run import RefoldRun as RefoldRun
else:
    __getattr__, __dir__, __all__ = names(__name__)
