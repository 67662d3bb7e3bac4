"""What is going wrong in a chain, and what to do about it: warnings as PyMC collects them."""

import math
from collections.abc import Mapping

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

from pymc_pmala.kernel.kernel import Info

__all__ = ["Diagnosis", "DiagnosisState", "divergence"]

Point = dict[str, np.ndarray]

# Draws after tuning from which an acceptance rate is known well enough to be judged.
_ENOUGH = 200
# At half the usual acceptance, so many rejections in a row have a chance below 1e-12.
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
# Looks after which it is known how large the metric usually is.
_ENOUGH_LOOKS = 20
# A place where the metric does not fit: so many times smaller than usual, with a slope so many
# times that of a step; or so many times smaller or larger, after so many rejections.
_SMALLER, _STEEP = 10.0, 5.0
_OTHER, _REJECTED = 100.0, 20
# Share of the looks from which it is told.
_ASTRAY = 0.01


@dataclass_state
class DiagnosisState(DataClassState):
    """What has been seen of a chain."""

    tuned: int
    draws: int
    accepted: float
    rejections: int
    looks: int
    floored: int
    log_metric: np.ndarray
    astray: int
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
        self.tuned = 0
        self.draws, self.accepted, self.rejections = 0, 0.0, 0
        self.looks, self.floored, self.astray = 0, 0, 0
        self.log_metric = np.zeros(0)
        self.told: list[str] = []

    def observe(self, info: Info, could_grow: bool) -> SamplerWarning | None:
        """Take in one draw after tuning; a warning where there is reason for one.

        Parameters
        ----------
        info : Info
            What its transitions did.
        could_grow : bool
            Whether the step size is far below its largest useful value: with an average that
            is near it, as short tuning leaves it, nothing is wrong.
        """
        self.draws += 1
        self.accepted += info.acceptance / info.transitions
        self.rejections = info.rejections + (0 if info.accepted else self.rejections)
        if self.rejections >= _STUCK:
            return self._stuck()
        if self.draws == _ENOUGH and self.target is not None:
            return self._judge(self.accepted / self.draws, self.target, could_grow)
        return None

    def observe_replacement(self, replaced: bool) -> SamplerWarning | None:
        """Take in whether another metric stands for the one that the draw has not."""
        if not replaced:
            return None
        return self._tell_once(
            "replaced",
            WarningType.BAD_PARAMS,
            "The metric is not finite, or not positive definite, at a draw whose log-density and "
            "gradient are finite: (1 + |∇log π|²) I stands for it there. Draws are exact, "
            "but steps from there suit the posterior less. The statistic `metric_replaced` tells "
            "the draws; look at the model there with `pymc_pmala.explain_metric(point=...)`, give "
            "the distribution its information with `pymc_pmala.register_information`, or "
            "choose another metric.",
        )

    @property
    def wants_metric(self) -> bool:
        """Whether the metric is to be looked at after this draw."""
        return self.draws % _EVERY == 0

    def observe_floor(self, floored: bool) -> SamplerWarning | None:
        """Take in whether the metric has a direction that only its floor holds."""
        self.floored += floored
        share = self.floored * _EVERY / self.draws
        # Once is chance, where draws are few.
        if self.draws < _ENOUGH or self.floored <= 1 or share <= _FLOORED:
            return None
        return self._tell_once(
            "floor",
            WarningType.BAD_PARAMS,
            f"Neither data nor priors say anything about some direction in "
            f"{share:.0%} of the draws: the metric's floor alone holds it "
            "there, and steps along it are enormous. Two parameters may enter the model only "
            "through their sum, or a prior may be flat or nearly so. Give the parameters proper "
            "priors, or remove one; `pymc_pmala.explain_metric` shows what informs each.",
        )

    def observe_metric(
        self, diagonal: np.ndarray, force: np.ndarray, sizes: Mapping[str, int]
    ) -> SamplerWarning | None:
        r"""Take in the metric at a draw, and speak if it has lost touch with the log-density.

        Where G is about the information, :math:`f_i^2 / G_{ii}` is about 1: the slope of the
        log-density over a step of the metric's. A metric that is far smaller than elsewhere in
        the run, while the slope is not, makes steps that are longer than the distance over
        which the density changes: they are rejected, those from elsewhere into this place as
        well, and it is hardly ever visited. With a metric that is far smaller or far larger
        than elsewhere and nothing but rejections, a chain has met such a place.

        Parameters
        ----------
        diagonal, force : ndarray
            :math:`G_{ii}` and the force f at the draw.
        sizes : mapping of str to int
            Number of coordinates of each variable, in their order.
        """
        log_metric = np.log(diagonal)
        self.looks += 1
        if self.looks == 1:
            self.log_metric = log_metric
        away = log_metric - self.log_metric
        self.log_metric = self.log_metric + away / self.looks
        if self.looks < _ENOUGH_LOOKS:
            return None
        steep = force * force > _STEEP**2 * diagonal
        lost = (away < -math.log(_SMALLER)) & steep
        if self.rejections >= _REJECTED:
            lost |= np.abs(away) > math.log(_OTHER)
        self.astray += bool(lost.any())
        if not lost.any() or self.astray <= 2 or self.astray <= _ASTRAY * self.looks:
            return None
        owners = np.repeat(list(sizes), list(sizes.values()))
        names = ", ".join(dict.fromkeys(map(str, owners[lost])))
        worst = away[lost][np.argmax(np.abs(away[lost]))]
        found = f"{math.exp(abs(worst)):.2g} times {'smaller' if worst < 0 else 'larger'}"
        return self._tell_once(
            "astray",
            WarningType.CONVERGENCE,
            f"The metric of {names} is {found} than usual at some draws, and does not fit the "
            "log-density there. Proposals to and from such places are rejected, so that they may "
            "hardly be visited at all, and r-hat need not notice: compare with NUTS. If the metric "
            "is your own, or the rule of a distribution, it must not fall far below the square of "
            "the log-density's slope; if not, try metric='softabs' or another parameterization.",
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
        # Of steps that are too small, no more need be said.
        if not slow or "small steps" in self.told:
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
            f"A chain is stuck: {self.rejections} proposals in a row were rejected at one point, "
            f"up to draw {self.draws}. The posterior's tails are heavier there than the "
            "proposal's. Set a higher target_accept, 0.8 for instance, reparameterize, or use "
            "NUTS.",
        )

    def _judge(self, rate: float, target: float, could_grow: bool) -> SamplerWarning | None:
        low, high = rate < 0.5 * target, could_grow and rate > 0.5 * (1.0 + target)
        if not (low or high):
            return None
        found = "below" if low else "above"
        message = f"The acceptance rate is {rate:.2f}, far {found} its target {target:.2f}: "
        if self.tuned == 0:
            message += "the step size has not been tuned. Let the chain tune, or give a step_size."
        elif low:
            message += (
                "the step size does not suit the places where the chain is now. Tune longer than "
                f"{self.tuned} draws, set a higher target_accept, or reparameterize."
            )
        else:
            message += (
                "the steps are smaller than they need to be, and draws move the less. Tune longer "
                f"than {self.tuned} draws."
            )
        told = "large steps" if low else "small steps"
        return self._tell_once(told, WarningType.BAD_ACCEPTANCE, message)

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
