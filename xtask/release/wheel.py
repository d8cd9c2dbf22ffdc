"""Packs a folder as a wheel: its files, and their digests in RECORD. `wheel.py FOLDER WHEEL LEVEL`"""

import base64
import hashlib
import pathlib
import sys
import zipfile

folder, wheel, level = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
lines = []
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as packed:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, data = path.relative_to(folder).as_posix(), path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
        packed.write(path, name)
    record = next(folder.glob("*.dist-info")).name + "/RECORD"
    packed.writestr(record, "".join([*lines, f"{record},,\n"]))
