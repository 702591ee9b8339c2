"""What the killed job's Spark is set to: plainly, and varied with what teams switch on."""

from __future__ import annotations

import pathlib

from evidence.spark_cluster.daemons import SMALL_JVM
from evidence.spark_cluster.events import PARTITIONS
from evidence.spark_kills.driver_process import ROOT

STATE = "org.apache.spark.sql.execution.streaming.state"
MOUNT = "spark.hadoop.fs.viewfs.mounttable.default.link./kept"


def plain(folder: pathlib.Path) -> dict[str, str]:
    """Two executors, speculation, state in memory."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # nothing else starts beside the executors' JVMs
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.speculation": "true",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "1s",
        "spark.task.maxFailures": "8",
        "spark.driver.extraJavaOptions": f"{SMALL_JVM} -Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "spark.executor.extraJavaOptions": SMALL_JVM,
        "spark.executorEnv.PYTHONPATH": str(ROOT),
    }


def varied(folder: pathlib.Path) -> dict[str, str]:
    """State in RocksDB, checkpoints in another file system of Hadoop's, executors that come and go and are excluded."""
    return plain(folder) | {
        "spark.sql.streaming.stateStore.providerClass": f"{STATE}.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        MOUNT: folder.as_uri(),
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.dynamicAllocation.executorIdleTimeout": "10s",
        "spark.excludeOnFailure.enabled": "true",
        "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": "1",  # what failed goes to the other one
        "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": "7",
        "spark.excludeOnFailure.stage.maxFailedTasksPerExecutor": "100",  # a stage has but two executors to lose
        "spark.excludeOnFailure.stage.maxFailedExecutorsPerNode": "100",
        "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "1",
        "spark.excludeOnFailure.killExcludedExecutors": "true",
        "spark.excludeOnFailure.timeout": "20s",
    }
