#!/usr/bin/env python3
"""Renews tests/fuzz/corpus.tar.xz, the fuzzer's corpus, from the files of folders.

usage: pack_corpus.py FOLDER…        (what model_fuzz -merge=1 kept; the archive's own files stay only if a folder has them)

Each file is named after the SHA-1 of its bytes, as libFuzzer names them. The same files give the same archive: names in order, no times, no owners.
To see the files: cmake -E tar xf tests/fuzz/corpus.tar.xz (in an empty folder). The build unpacks them into BUILD/fuzz_corpus.
"""
import hashlib
import io
import lzma
import pathlib
import sys
import tarfile

ARCHIVE = pathlib.Path(__file__).resolve().parent / "corpus.tar.xz"


def pack(contents):
    """The archive's bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted({hashlib.sha1(data).hexdigest(): data for data in contents}.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def unpack():
    """The files' bytes, by name."""
    with tarfile.open(ARCHIVE) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}


def main(folders):
    files = [path for folder in folders for path in sorted(pathlib.Path(folder).iterdir()) if path.is_file()]
    ARCHIVE.write_bytes(pack(path.read_bytes() for path in files))
    print(f"{len(unpack())} files, {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
