"""What must hold between the saga and the world: of every command when it is sent, and of every state. Pure.

Nothing of this asks the engine what it believes of a step: what counts is what the services have done. From the
standing come the status, the paths chosen at branches, and which wait is under way.
"""

from collections.abc import Iterator, Mapping, Sequence

from surefoot.saga.decision import Send
from surefoot.saga.definition import Branch, Definition, Node, Step, Wait
from surefoot.saga.instance import Instance
from surefoot.saga.verify.model import Service
from surefoot.saga.verify.verdict import Trouble

Services = Sequence[Service]
"""In the order in which their dos were first sent."""


def sent(
    definition: Definition, services: Services, came: frozenset[str], after: Instance, send: Send, grants: int
) -> Trouble | None:
    """Whether this command may be sent now. `grants`: how often attempts were granted, by definition or by people."""
    service = next((one for one in services if one.step == send.step), None)
    if send.direction == "undo":
        trouble = _undo(definition, services, service, send.step)
    else:
        trouble = _do(definition, services, came, after, send.step)
    return trouble or _attempt(definition.step(send.step), service, send, grants)


def _do(definition: Definition, services: Services, came: frozenset[str], after: Instance, name: str) -> Trouble | None:
    what = f"{name} is commanded"
    before: list[Step | Wait] = []
    for node in way(definition.nodes, dict(after.choices)):
        if node.name == name:
            break
        before.append(node)
    else:
        return Trouble("in_order", f"{what}, and is not on the way that was chosen.")
    known = {service.step: service for service in services}
    for node in before:
        if isinstance(node, Wait):
            if node.name not in came:
                return Trouble("in_order", f"{what}, and the event of {node.name} has not come.")
        elif node.name not in known or not _is_done(known[node.name]):
            return Trouble("in_order", f"{what}, and {node.name}, which comes before it, is not done.")
    if name in known and services[-1].step != name:
        return Trouble("in_order", f"{what} again, and {services[-1].step} was commanded after it.")
    if any(service.undo_sent for service in services):
        return Trouble("in_order", f"{what}, and the saga is being undone.")
    return None


def _is_done(service: Service) -> bool:
    return service.skipped or (service.memory == "done" and not service.undone)


def _undo(definition: Definition, services: Services, service: Service | None, name: str) -> Trouble | None:
    what = f"The undo of {name} is sent"
    if service is None:
        return Trouble("reverse", f"{what}, and {name} was never commanded.")
    if service.told_refused:
        return Trouble("refused", f"{what}, and {name} was refused: it was not done.")
    for later in services[services.index(service) + 1 :]:
        step = definition.step(later.step)
        if step.undo is not None and not _is_over(step, later):
            return Trouble("reverse", f"{what}, and {later.step}, which was commanded after it, is not undone yet.")
    return None


def _is_over(step: Step, service: Service) -> bool:
    """Nothing is left of the step, and nothing can come of it any more: or a person said so."""
    return step.nothing_to_undo or service.undo_skipped or service.undone or service.memory == "refused"


def _attempt(step: Step, service: Service | None, send: Send, grants: int) -> Trouble | None:
    made, each = 0, step.retry.attempts
    if service is not None:
        made = service.sent if send.direction == "do" else service.undo_sent
    if send.direction == "undo":
        each = step.undo_retry.attempts
    what = f"Attempt {send.attempt} of the {send.direction} of {send.step} is sent"
    if send.attempt != made + 1:
        return Trouble("bounded", f"{what}, and so far there were {made}.")
    if send.attempt > each * grants:
        return Trouble("bounded", f"{what}, and no more than {each * grants} were granted.")
    return None


def world(definition: Definition, instance: Instance, services: Services, came: frozenset[str]) -> Trouble | None:
    """Whether this state may be."""
    undoing = next((service.step for service in services if service.undo_sent), None)
    if undoing is not None:
        for service in services:
            if service.effect and definition.step(service.step).is_final:
                return Trouble(
                    "pivot", f"{service.step} is done, behind which there is no way back; and {undoing} is undone."
                )
    if instance.status == "COMPLETED":
        return _completed(definition, instance, services, came)
    if instance.status in ("COMPENSATED", "FAILED"):
        return _compensated(definition, instance, services)
    for record in instance.trail:
        if record.state == "AWAITED" and record.name in came and instance.status != "PAUSED":
            return Trouble("heard", f"The event of {record.name} has come, and the saga still waits for it.")
    return None


def _completed(definition: Definition, instance: Instance, services: Services, came: frozenset[str]) -> Trouble | None:
    known = {service.step: service for service in services}
    names = set()
    for node in way(definition.nodes, dict(instance.choices)):
        names.add(node.name)
        if isinstance(node, Wait):
            if node.name not in came:
                return Trouble("kept", f"The saga is COMPLETED, and the event of {node.name} has not come.")
        elif node.name not in known or not _is_done(known[node.name]):
            return Trouble("kept", f"The saga is COMPLETED, and {node.name} is not done.")
        elif known[node.name].undo_sent:
            return Trouble("kept", f"The saga is COMPLETED, and {node.name} is undone.")
    strange = next((service.step for service in services if service.step not in names), None)
    if strange is not None:
        return Trouble("kept", f"The saga is COMPLETED, and {strange} was commanded, which is not on its way.")
    return None


def _compensated(definition: Definition, instance: Instance, services: Services) -> Trouble | None:
    for service in services:
        if _is_over(definition.step(service.step), service):
            continue
        if service.effect:
            return Trouble("undone", f"The saga is {instance.status}, and {service.step} is done and stays so.")
        return Trouble(
            "undone", f"The saga is {instance.status}, and {service.step} may still be done: nothing bars it."
        )
    return None


def way(nodes: Sequence[Node], choices: Mapping[str, str]) -> Iterator[Step | Wait]:
    """The steps and waits on the way that was chosen, as far as it is."""
    for node in nodes:
        if not isinstance(node, Branch):
            yield node
        elif node.name in choices:
            yield from way(node.paths[choices[node.name]], choices)
        else:
            return
