"""The spool on disk: private, bounded, whole or not at all, and of no harm where it cannot be had."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from proxy.errors import StetError, StoreError
from proxy.gateway.spool import KEY, Bounds, SpoolDirectory
from proxy.spool import Spooled


class Box:
    """A spool, its clock, and what it warned of."""

    def __init__(self, folder: Path, **bounds: float) -> None:
        self.now = 1_000_000.0
        self.warned: list[StetError] = []
        self.state = folder
        self.path = folder / "spool"
        self.disk = SpoolDirectory(
            self.path,
            folder,
            self.warned.append,
            shown="/shown",
            bounds=Bounds(**bounds),
            clock=lambda: self.now,
        )

    def kept(self, data: bytes) -> Spooled:
        spool = self.disk.seen_from("http://x")
        assert spool is not None
        return Spooled(handle=spool.handle(data), data=data)

    def put(self, data: bytes) -> str:
        one = self.kept(data)
        assert self.disk.hold([one])
        return one.handle

    def names(self) -> set[str]:
        return {file.name for file in self.path.iterdir()}


def test_what_is_kept_can_be_read_here_and_by_path(tmp_path: Path) -> None:
    """One file, named by the handle, with just the output in it."""
    box = Box(tmp_path)
    handle = box.put(b"long output")
    assert box.disk.read(handle) == b"long output"
    assert {file.name: file.read_bytes() for file in box.path.iterdir()} == {f"{handle}.txt": b"long output"}


def test_all_of_it_is_the_owners_alone(tmp_path: Path) -> None:
    """Directory 0700, files and secret 0600, whatever the umask."""
    before = os.umask(0)
    try:
        box = Box(tmp_path / "state")
        handle = box.put(b"x")
    finally:
        os.umask(before)
    modes = [box.state, box.path, box.path / f"{handle}.txt", box.state / KEY]
    assert [stat.S_IMODE(path.stat().st_mode) for path in modes] == [0o700, 0o700, 0o600, 0o600]


def test_handles_are_the_same_as_long_as_the_secret_is(tmp_path: Path) -> None:
    """Restarted, and with two servers at once; another secret gives other handles, and old ones still read."""
    handle = Box(tmp_path).put(b"x")
    assert Box(tmp_path).put(b"x") == handle
    (tmp_path / KEY).unlink()
    box = Box(tmp_path)
    assert box.kept(b"x").handle != handle
    assert box.disk.read(handle) == b"x"


def test_a_damaged_secret_is_replaced_and_an_open_one_closed(tmp_path: Path) -> None:
    """Half a secret is none; one that others could read is not left so."""
    Box(tmp_path)
    (tmp_path / KEY).write_bytes(b"short")
    Box(tmp_path)
    assert len((tmp_path / KEY).read_bytes()) == 32
    (tmp_path / KEY).chmod(0o644)
    Box(tmp_path)
    assert stat.S_IMODE((tmp_path / KEY).stat().st_mode) == 0o600


def test_all_who_start_at_once_have_one_secret(tmp_path: Path) -> None:
    """The first to have written it wins, and nothing half-written is left behind."""
    found: list[str] = []
    ready = threading.Barrier(8)

    def start() -> None:
        ready.wait()
        found.append(Box(tmp_path).kept(b"x").handle)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert {file.name for file in tmp_path.iterdir()} == {KEY}


@pytest.mark.parametrize("planted", ["link", "folder"])
def test_a_secret_that_is_no_file_is_refused(tmp_path: Path, planted: str) -> None:
    """A link could lead to a secret that another one knows."""
    (tmp_path / "known").write_bytes(b"k" * 32)
    if planted == "link":
        (tmp_path / KEY).symlink_to(tmp_path / "known")
    else:
        (tmp_path / KEY).mkdir()
    with pytest.raises(StoreError, match=r"spool\.key: (cannot be had|is no file)"):
        Box(tmp_path)


def test_without_a_state_directory_the_secret_is_new_each_time(tmp_path: Path) -> None:
    """And is written nowhere."""
    made = [SpoolDirectory(tmp_path / "spool", None, lambda _: None, shown="/x").seen_from("") for _ in "ab"]
    assert made[0] != made[1]
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_can_read_is_no_spool(tmp_path: Path) -> None:
    """With neither a path nor an address nothing is taken out."""
    assert SpoolDirectory(tmp_path / "spool", None, lambda _: None).seen_from("") is None


# -- names and links -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../spool.key",
        "../../etc/passwd",
        "/etc/passwd",
        "spool-" + "0" * 31,
        "spool-" + "0" * 32 + "/../../spool.key",
        "spool-" + "A" * 32,
        "spool-" + "0" * 32 + "\n",
        "spool-" + "0" * 32 + ".txt",
        "spool-" + "٣" * 32,
        "",
    ],
)
def test_only_handles_name_files(tmp_path: Path, name: str) -> None:
    """No other name reaches the disk."""
    box = Box(tmp_path)
    box.put(b"x")
    assert box.disk.read(name) is None


def test_links_are_neither_read_nor_written_through(tmp_path: Path) -> None:
    """A link in a file's place is not followed: it is replaced by the output, and what it led to stays."""
    box = Box(tmp_path)
    box.put(b"first")
    victim = tmp_path / "victim"
    victim.write_bytes(b"secret")
    one = box.kept(b"second")
    link = box.path / f"{one.handle}.txt"
    link.symlink_to(victim)
    assert box.disk.read(one.handle) is None
    assert box.disk.hold([one])
    assert (link.is_symlink(), link.read_bytes(), victim.read_bytes()) == (False, b"second", b"secret")


def test_a_purge_takes_the_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    """Nor does it touch what has no name of ours."""
    box = Box(tmp_path, age_s=10)
    box.put(b"x")
    victim = tmp_path / "victim"
    victim.write_bytes(b"secret")
    (box.path / ("spool-" + "0" * 32 + ".txt")).symlink_to(victim)
    (box.path / "notes.txt").write_text("mine")
    box.now += 1e10
    box.disk.purge()
    assert box.names() == {"notes.txt"}
    assert victim.read_bytes() == b"secret"


def test_a_pipe_in_a_files_place_holds_nobody_up(tmp_path: Path) -> None:
    """It is no file, and is not waited for."""
    box = Box(tmp_path)
    one = box.kept(b"x")
    box.put(b"y")
    os.mkfifo(box.path / f"{one.handle}.txt")
    assert box.disk.read(one.handle) is None


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """Outputs do not go where somebody else points."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "spool").symlink_to(tmp_path / "elsewhere")
    box = Box(tmp_path)
    assert not box.disk.hold([box.kept(b"x")])
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert box.disk.read(box.kept(b"x").handle) is None


def test_a_directory_that_others_may_look_into_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """It may be shared for good reason."""
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool").chmod(0o755)
    box = Box(tmp_path)
    assert not box.disk.hold([box.kept(b"x")])
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o755
    assert str(box.warned[0]) == (
        f"{tmp_path / 'spool'}: huge outputs cannot be put into the spool (others may look into it; make it 0700, or "
        "name another); they stay in the prompt"
    )


# -- bounds and faults ---------------------------------------------------------------------------------------


def test_the_oldest_leave_when_it_is_full(tmp_path: Path) -> None:
    """By when they were last kept, down to nine tenths, so that not every output brings a purge."""
    box = Box(tmp_path, bytes=1000)
    handles = []
    for at in range(10):
        box.now += 1
        handles.append(box.put(b"%d" % at * 100))
    box.now += 1
    assert box.put(b"0" * 100) == handles[0]
    box.now += 1
    last = box.put(b"x" * 100)
    assert box.names() == {f"{handle}.txt" for handle in (handles[0], *handles[3:], last)}


def test_one_output_that_is_too_large_stays_out_and_costs_the_others_nothing(tmp_path: Path) -> None:
    """It could not be kept anyway."""
    box = Box(tmp_path, bytes=1000)
    handle = box.put(b"x" * 900)
    assert not box.disk.hold([box.kept(b"y" * 1001)])
    assert box.disk.read(handle) == b"x" * 900
    assert "an output of 1001 bytes is more than all of it may take" in str(box.warned[0])


def test_what_is_too_old_is_gone(tmp_path: Path) -> None:
    """For readers at once, on the disk with the next purge; kept again, it lives again."""
    box = Box(tmp_path, age_s=100)
    old, renewed = box.put(b"old"), box.put(b"renewed")
    box.now += 90
    box.put(b"renewed")
    box.now += 20
    assert (box.disk.read(old), box.disk.read(renewed)) == (None, b"renewed")
    assert len(box.names()) == 2
    box.disk.purge()
    assert box.names() == {f"{renewed}.txt"}


def test_what_somebody_stopped_writing_is_swept_up(tmp_path: Path) -> None:
    """After an hour; before that somebody may be writing still."""
    box = Box(tmp_path)
    box.put(b"x")
    for name, age in (("old", 4000), ("new", 10)):
        (box.path / f".begun-{name}").write_bytes(b"ha")
        os.utime(box.path / f".begun-{name}", (box.now - age, box.now - age))
    box.disk.purge()
    assert {name for name in box.names() if name.startswith(".")} == {".begun-new"}


def test_an_empty_file_is_written_again(tmp_path: Path) -> None:
    """As a power cut may leave one: it is not taken for the output."""
    box = Box(tmp_path)
    handle = box.put(b"x" * 10)
    (box.path / f"{handle}.txt").write_bytes(b"")
    assert box.disk.read(handle) is None
    assert box.put(b"x" * 10) == handle
    assert box.disk.read(handle) == b"x" * 10


def test_two_servers_share_one_directory(tmp_path: Path) -> None:
    """Each reads what the other kept; what one lets go of, the other does not miss."""
    one, other = Box(tmp_path, bytes=1000), Box(tmp_path, bytes=1000)
    handle = one.put(b"x" * 400)
    assert other.put(b"x" * 400) == handle
    assert other.disk.read(handle) == b"x" * 400
    other.now += 1
    other.put(b"y" * 900)
    assert one.disk.read(handle) is None
    one.now += 2
    assert one.put(b"x" * 400) == handle
    assert one.disk.read(handle) == b"x" * 400


def test_servers_that_write_at_once_get_on(tmp_path: Path) -> None:
    """Several writers of the same and other outputs, with purges between: whoever says it is kept can read it whole."""
    wrong: list[object] = []

    def work(number: int) -> None:
        box = Box(tmp_path, bytes=100_000)
        for at in range(60):
            data = b"%d" % ((at + number) % 7) * 5000
            handle = box.put(data)
            found = box.disk.read(handle)
            if found not in (data, None):
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert {name[:6] for name in Box(tmp_path).names()} == {"spool-"}


def test_a_directory_that_vanished_is_made_again(tmp_path: Path) -> None:
    """As when its owner deletes it to forget everything."""
    box = Box(tmp_path)
    handle = box.put(b"x")
    (box.path / f"{handle}.txt").unlink()
    box.path.rmdir()
    assert box.disk.read(handle) is None
    box.disk.purge()
    assert box.put(b"x") == handle


def test_a_fault_is_told_once_until_it_is_over(tmp_path: Path) -> None:
    """A full disk does not fill the log as well."""
    box = Box(tmp_path)
    box.path.write_text("in the way")
    for _ in range(3):
        assert not box.disk.hold([box.kept(b"x")])
    assert len(box.warned) == 1
    box.path.unlink()
    box.put(b"x")
    (box.path / f"{box.kept(b'y').handle}.txt").mkdir()
    assert not box.disk.hold([box.kept(b"y")])
    assert len(box.warned) == 2
    assert {name for name in box.names() if name.startswith(".")} == set()


FULL = """
import resource, sys
from pathlib import Path
from proxy.gateway.spool import SpoolDirectory
from proxy.spool import Spooled
warned = []
disk = SpoolDirectory(Path(sys.argv[1]) / "spool", Path(sys.argv[1]), warned.append, shown="/x")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
spool = disk.seen_from("")
big, small = b"b" * 100_000, b"s" * 4000
print(disk.hold([Spooled(handle=spool.handle(small), data=small)]))
print(disk.hold([Spooled(handle=spool.handle(big), data=big)]), disk.read(spool.handle(big)))
print(sorted(file.stat().st_size for file in (Path(sys.argv[1]) / "spool").iterdir()))
print(warned[0].message)
"""


def test_a_disk_that_takes_only_a_part_keeps_none_of_it(tmp_path: Path) -> None:
    """A write that stops in the middle leaves nothing behind, and what was there stays."""
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=60, cwd=root
    )
    assert done.stdout.splitlines() == [
        "True",
        "False None",
        "[4000]",
        "huge outputs cannot be put into the spool (File too large)",
    ], done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_keeps_nothing(tmp_path: Path) -> None:
    """And is told like any fault."""
    box = Box(tmp_path)
    box.put(b"x")
    box.path.chmod(0o500)
    assert not box.disk.hold([box.kept(b"y")])
    assert "Permission denied" in str(box.warned[0])
    box.path.chmod(0o700)
