"""One circuit per kind of task and workstream, kept while the daemon lives."""

from typing import Any

from acode.clock import Clock
from acode.model.failure import Failure
from acode.model.task import TaskSpec
from acode.policy import breaker
from acode.policy.breaker import Breaker, CircuitState, Closed
from acode.store.base import Circuit

_FRESH = Closed(0)


class Circuits:
    """Knows which circuits hold tasks back. Only those that have seen a failure are kept."""

    def __init__(self, settings: Breaker, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._states: dict[Circuit, CircuitState] = {}

    def allowances(self) -> dict[Circuit, int]:
        """How many tasks each circuit that is not sound lets through now."""
        if not self._states:
            return {}
        now = self._clock.now()
        return {
            circuit: breaker.admits(state, self._settings, now)
            for circuit, state in self._states.items()
        }

    def seen(self) -> list[dict[str, Any]]:
        """Those that are not sound, as others may see them."""
        return [
            {"type": circuit.kind, "workstreamId": circuit.workstream_id, "status": state.status}
            for circuit, state in self._states.items()
            if not isinstance(state, Closed)
        ]

    def started(self, spec: TaskSpec) -> None:
        """A task of this circuit has started."""
        if not self._states:
            return
        circuit = _circuit(spec)
        if circuit in self._states:
            now = self._clock.now()
            self._keep(circuit, breaker.started(self._states[circuit], self._settings, now))

    def ended(self, spec: TaskSpec, failure: Failure | None, *, completed: bool) -> None:
        """A task of this circuit has ended."""
        if completed and not self._states:
            return
        circuit = _circuit(spec)
        state = self._states.get(circuit, _FRESH)
        named = spec.workstream_id is not None
        if completed:
            self._keep(circuit, breaker.succeeded(state))
        elif breaker.counts_as_failure(failure, in_named_workstream=named):
            self._keep(circuit, breaker.failed(state, self._settings, self._clock.now()))
        elif circuit in self._states:
            self._keep(circuit, breaker.abandoned(state))

    def _keep(self, circuit: Circuit, state: CircuitState) -> None:
        if state == _FRESH:
            self._states.pop(circuit, None)
        else:
            self._states[circuit] = state


def _circuit(spec: TaskSpec) -> Circuit:
    return Circuit(spec.kind, spec.workstream_id)
