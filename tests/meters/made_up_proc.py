"""A made-up /proc and /sys of a machine whose every count is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from irene.meters.cpu.kernel_files import Roots

BLOCK = """\
processor\t: {index}
vendor_id\t: {vendor}
model name\t: {name}
cpu MHz\t\t: {mhz}
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu sse2{flags}
"""


class FakeProc:
    """Writes the files that the meters read; time passes when told."""

    def __init__(self, root: Path) -> None:
        self.root = root / "proc"
        self.sysfs = root / "sys"
        self.now_s = 100.0
        self.root.mkdir(parents=True)
        self.sysfs.mkdir()
        self.stat()
        self.memory(total_kib=1000, available_kib=750)
        self.cpuinfo()

    @property
    def roots(self) -> Roots:
        return Roots(self.sysfs, self.root)

    def clock(self) -> float:
        return self.now_s

    def stat(self, *ticks: int) -> None:
        """user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice."""
        counts = [*ticks, *[0] * (10 - len(ticks))]
        text = f"cpu  {' '.join(map(str, counts))}\ncpu0 0 0 0 0\nintr 5\n"
        (self.root / "stat").write_text(text)

    def memory(self, total_kib: int, available_kib: int) -> None:
        (self.root / "meminfo").write_text(
            f"MemTotal:  {total_kib} kB\nMemFree:  1 kB\n"
            f"MemAvailable:  {available_kib} kB\nBuffers:  1 kB\n"
        )

    def cpuinfo(
        self,
        name: str = "AMD EPYC",
        vendor: str = "AuthenticAMD",
        cores: int = 2,
        threads: int = 2,
        sockets: int = 1,
        virtual: bool = False,
        mhz: Sequence[float] = (2000.0,),
    ) -> None:
        """`cores` and `threads` of each socket."""
        blocks = [
            BLOCK.format(
                index=socket * threads + thread,
                vendor=vendor,
                name=name,
                socket=socket,
                core=thread % cores,
                mhz=mhz[thread % len(mhz)],
                flags=" hypervisor" if virtual else "",
            )
            for socket in range(sockets)
            for thread in range(threads)
        ]
        (self.root / "cpuinfo").write_text("\n".join(blocks))

    def process(
        self, pid: int, ticks: Sequence[int], pages: int = 0, parent: int = 1
    ) -> None:
        """`ticks`: user, system, and the same of ended children."""
        fields = ["S", str(parent), *["0"] * 9, *map(str, ticks), *["0"] * 6]
        fields += [str(pages), *["0"] * 20]
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{pid} (a) b (c) {' '.join(fields)}\n")

    def sysfs_file(self, path: str, text: str) -> None:
        file = self.sysfs / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
