"""A pretend SLURM cluster on this host: real daemons from Debian's packages, no systemd.

Three nodes on loopback share the host: `cpu1`, and `gpu1` and `gpu2` with two pretend GPUs each.
Needs root, since slurmd starts jobs as their users.

    python tests/cluster/pretend.py start|stop [--accounting]
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

STATE = Path("/run/acl-bert-pretend-cluster")
# SLURM's own place for it: the executor's job steps drop SLURM_CONF from their environment.
CONFIG = Path("/etc/slurm")
CGROUP = Path("/sys/fs/cgroup/freezer")
MADE_HERE = "# Made by acl-bert's tests/cluster/pretend.py\n"
NODES = ("cpu1", "gpu1", "gpu2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
ACCOUNTING_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db")
PACKAGES = "munge slurmctld slurmd slurm-client"
ACCOUNTING_PACKAGES = "slurmdbd mariadb-server"
ACCOUNT = "lab"
_SECONDS_TO_START = 20

# Cores and memory are what the configuration says, not what the host has (config_overrides).
# A job's end is seen for MinJobAge seconds; a node counts as down after SlurmdTimeout, and a job
# that is repeated waits until its old credential has expired.
_SLURM_CONF = """\
ClusterName=pretend
SlurmctldHost={host}(127.0.0.1)
SlurmctldParameters=enable_configless
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={state}/munge/socket,cred_expire=10
CredType=cred/munge
SlurmctldPort=16817
SlurmctldPidFile={state}/slurmctld.pid
SlurmctldLogFile={state}/slurmctld.log
StateSaveLocation={state}/saved
SlurmdPidFile={state}/slurmd-%n.pid
SlurmdLogFile={state}/slurmd-%n.log
SlurmdSpoolDir={state}/spool-%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
JobAcctGatherType=jobacct_gather/linux
JobCompType=jobcomp/filetxt
JobCompLoc={state}/completed.txt
MinJobAge=300
KillWait=5
SlurmdTimeout=15
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
{accounting}
NodeName=cpu1 NodeHostname={host} NodeAddr=127.0.0.1 Port=16901 CPUs=4 RealMemory=64000
NodeName=gpu[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[16902-16903] CPUs=4 \
RealMemory=64000 Gres=gpu:pretend:2
PartitionName=cpu Nodes=cpu1 Default=YES MaxTime=1440
PartitionName=gpu Nodes=gpu[1-2] MaxTime=1440 GraceTime=10
PartitionName=urgent Nodes=gpu[1-2] MaxTime=1440 PriorityTier=10
"""
# As production clusters have it: a warning then reaches a step's first process alone, while
# linuxproc signals all that is below it. SLURM 22.05 without systemd takes version 1 only.
_CGROUP_CONF = f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={CGROUP.parent}\n"
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=16819
AccountingStoragePass={state}/munge/socket
AccountingStorageTRES=gres/gpu"""
# SLURM wants character devices; no job opens them.
_GRES_CONF = "NodeName=gpu[1-2] Name=gpu Type=pretend File={state}/gpu[0-1] Flags=nvidia_gpu_env\n"
_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo={state}/munge/socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort=16819
SlurmUser=root
LogFile={state}/slurmdbd.log
PidFile={state}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=16306
StorageUser=slurm
StoragePass=pretend
StorageLoc=slurm
"""


def why_not(accounting: bool = False) -> str | None:
    """Why the cluster cannot be started here; None where it can."""
    if os.geteuid() != 0:
        return "slurmd has to be started by root"
    os.environ["PATH"] += ":/usr/sbin"
    programs = PROGRAMS + ACCOUNTING_PROGRAMS * accounting
    if missing := [name for name in programs if shutil.which(name) is None]:
        packages = f"{PACKAGES} {ACCOUNTING_PACKAGES}" if accounting else PACKAGES
        return f"{', '.join(missing)} missing: apt-get install {packages}"
    config = CONFIG / "slurm.conf"
    if config.exists() and not config.read_text().startswith(MADE_HERE):
        return f"{config} is that of another cluster"
    return None


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wait_for(what: str, happened: Callable[[], bool], seconds: float = _SECONDS_TO_START) -> None:
    """Raises TimeoutError where `happened` is not true in time."""
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.2)


def works(*command: str | Path) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


class Cluster:
    """The cluster, of which there is one at a time on a host."""

    def __init__(self, accounting: bool = False) -> None:
        self.accounting = accounting

    def start(self) -> None:
        if reason := why_not(self.accounting):
            raise RuntimeError(reason)
        self.stop()
        munge = STATE / "munge"
        munge.mkdir(parents=True)
        shutil.chown(munge, "munge", "munge")
        for number in range(2):
            os.mknod(STATE / f"gpu{number}", 0o600 | 0o020000, os.makedev(195, number))
        names = {
            "state": STATE,
            "host": socket.gethostname(),
            "proctrack": "cgroup" if _has_cgroup() else "linuxproc",
        }
        accounting = _ACCOUNTING.format(**names) if self.accounting else ""
        CONFIG.mkdir(exist_ok=True)
        for name, text in (
            ("slurm.conf", _SLURM_CONF.format(**names, accounting=accounting)),
            ("gres.conf", _GRES_CONF.format(**names)),
            ("cgroup.conf", _CGROUP_CONF),
        ):
            (CONFIG / name).write_text(MADE_HERE + text)
        places = [f"--{name}={munge}/{name}" for name in ("socket", "pid-file", "log-file")]
        run("runuser", "-u", "munge", "--", shutil.which("munged") or "", *places,
            f"--seed-file={munge}/seed")  # fmt: skip
        if self.accounting:
            self._start_accounting(names)
        run("slurmctld", "-c")
        for name in NODES:
            self.start_node(name)
        wait_for("nodes are idle", lambda: run("sinfo", "-hNo", "%T").split() == ["idle"] * 5)

    def _start_accounting(self, names: dict[str, object]) -> None:
        file = CONFIG / "slurmdbd.conf"
        file.touch(mode=0o600)
        file.write_text(MADE_HERE + _SLURMDBD_CONF.format(**names))
        data = STATE / "mariadb"
        data.mkdir()
        shutil.chown(data, "mysql", "mysql")
        common = ("--no-defaults", "--user=mysql", f"--datadir={data}")
        run("mariadb-install-db", *common, "--auth-root-authentication-method=normal")
        with (STATE / "mariadb.log").open("w") as log:
            subprocess.Popen(
                ["mariadbd", *common, f"--socket={data}/socket", "--bind-address=127.0.0.1",
                 "--port=16306", f"--pid-file={data}/pid"],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        client = ("mariadb", "--no-defaults", f"--socket={data}/socket", "--user=root", "--execute")
        wait_for("MariaDB answers", lambda: works(*client, "select 1"))
        run(*client, "grant all on slurm.* to 'slurm'@'localhost' identified by 'pretend'")
        run("slurmdbd")
        wait_for("slurmdbd answers", lambda: works("sacctmgr", "-n", "list", "cluster"))
        manage = ("sacctmgr", "--immediate", "--quiet", "add")
        run(*manage, "cluster", "pretend")
        run(*manage, "account", ACCOUNT)
        run(*manage, "user", "root", f"account={ACCOUNT}")

    def start_node(self, name: str) -> None:
        run("slurmd", "-N", name)

    def kill_node(self, name: str, processes: bool = True) -> None:
        """What a power cut does; without `processes` a node is only cut off, and its jobs go on."""
        _signal(STATE / f"slurmd-{name}.pid", signal.SIGKILL)
        if processes:
            for process in self.processes(name):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def processes(self, name: str) -> list[int]:
        """The processes of a node's jobs, and the daemons that watch over them."""
        mark = f"SLURMD_NODENAME={name}".encode()
        found = set()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.add(int(folder.name))
                    parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                    if Path(f"/proc/{parent}/comm").read_text().startswith("slurmstepd"):
                        found.add(parent)
        return sorted(found)

    def stop(self) -> None:
        """End the daemons that `start` began and remove the configuration.

        A slurm.conf without its slurmctld costs whoever starts Snakemake ten seconds.
        """
        if shutil.which("scancel") and (STATE / "slurmctld.pid").exists():
            subprocess.run(["scancel", "--user=root"], capture_output=True, timeout=30)
        pids = [STATE / f"slurmd-{name}.pid" for name in NODES]
        pids += [STATE / name for name in ("slurmctld.pid", "slurmdbd.pid", "mariadb/pid")]
        for path in [*pids, STATE / "munge/pid-file"]:
            _signal(path, signal.SIGTERM)
        for name in ("slurm.conf", "gres.conf", "cgroup.conf", "slurmdbd.conf"):
            path = CONFIG / name
            if path.exists() and path.read_text().startswith(MADE_HERE):
                path.unlink()
        shutil.rmtree(STATE, ignore_errors=True)
        for node in NODES:  # an empty cgroup goes, its files with it
            for folder, _, _ in os.walk(CGROUP / f"slurm_{node}", topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)


def _has_cgroup() -> bool:
    """Whether processes can be put into cgroups of version 1 here."""
    trial = CGROUP / "acl-bert-trial"
    try:
        trial.mkdir(exist_ok=True)
        trial.rmdir()
    except OSError:
        return False
    return True


def _signal(pid_file: Path, number: signal.Signals) -> None:
    """Signal the process of a pid file, and wait until it is gone."""
    try:
        pid = int(pid_file.read_text())
        os.kill(pid, number)
    except (OSError, ValueError):
        return
    wait_for(f"{pid_file.stem} ends", lambda: not _alive(pid))


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    cluster = Cluster(accounting="--accounting" in sys.argv)
    {"start": cluster.start, "stop": cluster.stop}[sys.argv[1]]()
