"""Ray as it is published, on loopback: nodes that can be killed.  For tests behind `long`."""

import contextlib
import importlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

_NODE: dict[str, Any] = {"object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}


@contextlib.contextmanager
def ray_cluster(*, cpus: int = 4) -> Iterator[Any]:
    """Start a cluster of one node, and connect to it; yields a `ray.cluster_utils.Cluster`.

    `add_node(num_cpus=…)` gives it more, which `remove_node` kills.
    """
    ray: Any = pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
    clusters: Any = importlib.import_module("ray.cluster_utils")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # Ray's own, of what it will do in a later version
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        cluster = clusters.Cluster(initialize_head=True, head_node_args={**_NODE, "num_cpus": cpus})
        patch.setenv("RAY_ADDRESS", cluster.address)
        try:
            ray.init(log_to_driver=False)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


def session_folder() -> str:
    """Return the folder of the cluster that this process is connected to."""
    worker: Any = importlib.import_module("ray._private.worker")
    return os.path.realpath(str(worker._global_node.get_session_dir_path()))
