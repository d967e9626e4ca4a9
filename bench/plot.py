"""The relay bench as a picture."""

from pathlib import Path

import matplotlib


def plot(figures: dict[str, object], path: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rounds = figures["rounds"]
    assert isinstance(rounds, dict)
    figure, axes = pyplot.subplots(figsize=(7, 3.2), layout="constrained")
    names = {"textbook": "textbook worker", "bare_producer": "bare producer (send only)", "relay": "Surefoot relay"}
    for height, (key, name) in enumerate(names.items()):
        values = sorted(rounds[key])
        axes.barh(name, values[len(values) // 2], color="#2a7f62" if key == "relay" else "#b8c4c2")
        axes.plot(values, [height] * len(values), "k.", markersize=4)
    axes.set_xlabel("rows per second (bar: median, dots: rounds)")
    latency = figures["latency_ms"]
    assert isinstance(latency, dict)
    axes.set_title(f"commit to topic at 500 events/s: p50 {latency['p50']} ms, p99 {latency['p99']} ms", fontsize=10)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
