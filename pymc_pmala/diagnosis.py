"""What is going wrong in a chain, and what to do about it: warnings as PyMC collects them."""

from collections.abc import Mapping

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

__all__ = ["Diagnosis", "DiagnosisState", "divergence"]

Point = dict[str, np.ndarray]

# Draws after tuning from which an acceptance rate is known well enough to be judged.
_ENOUGH = 200
# At half the usual acceptance, a run of rejections so long has a chance below 1e-12.
_STUCK = 100
# The metric is looked at in one draw of so many: it costs about as much as drawing noise.
_EVERY = 10
# Autocorrelation of a coordinate from draw to draw from which a chain is slow: an effective draw
# in nine. Tuning aims at 0.25.
_SLOW = 0.8
# Jumps are looked at in one draw of so many, for the same reason.
_EVERY_JUMP = 4
# Share of draws with the metric's floor at work from which it is told.
_FLOORED = 0.01


@dataclass_state
class DiagnosisState(DataClassState):
    """What has been seen of a chain."""

    draws: int
    accepted: float
    rejections: int
    looks: int
    floored: int
    told: list[str]


class Diagnosis(WithSamplingState):
    """Watches one chain after tuning and speaks once of each thing that it finds.

    PyMC logs what a step method returns as the statistic ``"warning"``, in the process that
    the user sees, and keeps it with ``pm.sample(keep_warning_stat=True)``.

    Parameters
    ----------
    target : float or None
        Acceptance rate that the step size is tuned for; None if it is not tuned.
    """

    _state_class = DiagnosisState

    def __init__(self, target: float | None):
        self.target = target
        self.restart()

    def restart(self) -> None:
        """Forget the chain watched so far."""
        self.draws, self.accepted, self.rejections = 0, 0.0, 0
        self.looks, self.floored = 0, 0
        self.told: list[str] = []

    def observe(self, acceptance: float, accepted: bool, could_grow: bool) -> SamplerWarning | None:
        """Take in one transition after tuning; a warning where there is reason for one.

        Parameters
        ----------
        acceptance : float
            Probability with which the proposal was accepted.
        accepted : bool
            Whether it was.
        could_grow : bool
            Whether the step size is far below its largest useful value: with an average that
            is near it, as short tuning leaves it, nothing is wrong.
        """
        self.draws += 1
        self.accepted += acceptance
        self.rejections = 0 if accepted else self.rejections + 1
        if self.rejections == _STUCK:
            return self._stuck()
        if self.draws == _ENOUGH and self.target is not None:
            return self._judge(self.accepted / self.draws, self.target, could_grow)
        return None

    @property
    def wants_metric(self) -> bool:
        """Whether `observe_metric` is to be called after this transition."""
        return self.draws % _EVERY == 0

    @property
    def floored_share(self) -> float:
        """Share of the draws looked at with a direction that only the metric's floor holds."""
        return self.floored / max(1, self.looks)

    def observe_metric(self, floored: bool) -> SamplerWarning | None:
        """Take in whether the metric has a direction that only its floor holds."""
        self.looks += 1
        self.floored += floored
        # Once is chance, where draws are few.
        if self.draws < _ENOUGH or self.floored <= 1 or self.floored_share <= _FLOORED:
            return None
        return self._tell_once(
            "floor",
            WarningType.BAD_PARAMS,
            f"Neither data nor priors say anything about some direction in "
            f"{self.floored_share:.0%} of the draws: the metric's floor alone holds it "
            "there, and steps along it are enormous. Two parameters may enter the model only "
            "through their sum, or a prior may be flat or nearly so. Give the parameters proper "
            "priors, or remove one; `pymc_pmala.explain_metric` shows what informs each.",
        )

    @property
    def wants_jump(self) -> bool:
        """Whether the way from the last draw to this one is to be measured."""
        return self.draws % _EVERY_JUMP == 0

    @property
    def wants_mixing(self) -> bool:
        """Whether `judge_mixing` is to be called now: after 200 draws, 400, 800 and so on."""
        times, rest = divmod(self.draws, _ENOUGH)
        return rest == 0 and times & (times - 1) == 0

    def judge_mixing(
        self, correlations: np.ndarray, sizes: Mapping[str, int], transitions: int
    ) -> SamplerWarning | None:
        """Speak of coordinates that draws hardly move.

        Parameters
        ----------
        correlations : ndarray
            Autocorrelation of each coordinate from one draw to the next.
        sizes : mapping of str to int
            Number of coordinates of each variable, in their order.
        transitions : int
            Transitions made for a draw.
        """
        owners = np.repeat(list(sizes), list(sizes.values()))
        slow = [str(name) for name in dict.fromkeys(owners[correlations > _SLOW])]
        if not slow:
            return None
        return self._tell_once(
            "slow",
            WarningType.CONVERGENCE,
            f"Draws hardly move {', '.join(slow)}: the autocorrelation from one to the next is "
            f"{correlations.max():.2f}, at {transitions} transitions a draw. Look at r-hat "
            "and ESS before you trust them. If a scale and what it scales are sampled "
            "together, as in a centred hierarchy, write the model non-centred. Tune longer if the "
            "chain has not arrived, give proper priors if it never will, draw more, or use NUTS.",
        )

    def _stuck(self) -> SamplerWarning | None:
        return self._tell_once(
            "stuck",
            WarningType.CONVERGENCE,
            f"A chain is stuck: {_STUCK} proposals in a row were rejected at one point, up to "
            f"draw {self.draws}. The posterior's tails are heavier there than the proposal's. "
            "Set a higher target_accept, 0.8 for instance, reparameterize, or use NUTS.",
        )

    def _judge(self, rate: float, target: float, could_grow: bool) -> SamplerWarning | None:
        found = (
            f"The acceptance rate after tuning is {rate:.2f}, far {{}} its target {target:.2f}: "
        )
        if rate < 0.5 * target:
            message = found.format("below") + (
                "the step size does not suit the places where the chain is now. Tune longer, set "
                "a higher target_accept, or reparameterize."
            )
        elif could_grow and rate > 0.5 * (1.0 + target):
            message = found.format("above") + (
                "the steps are smaller than they need to be. Tune longer."
            )
        else:
            return None
        return self._tell_once("acceptance", WarningType.BAD_ACCEPTANCE, message)

    def _tell_once(self, what: str, kind: WarningType, message: str) -> SamplerWarning | None:
        if what in self.told:
            return None
        self.told = [*self.told, what]
        return SamplerWarning(kind, message, "warn", step=self.draws)


def divergence(tuning: bool, source: Point | None, destination: Point | None) -> SamplerWarning:
    """A proposal without a finite geometry: where from and where to.

    At level "debug", as PyMC's own: it sums up divergences after sampling.
    """
    return SamplerWarning(
        WarningType.TUNING_DIVERGENCE if tuning else WarningType.DIVERGENCE,
        "The log-density, its gradient or the metric is not finite at a proposal.",
        "debug",
        divergence_point_source=source,
        divergence_point_dest=destination,
    )
