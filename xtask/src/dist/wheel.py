import base64, hashlib, os, sys, time, zipfile

directory, target, epoch = sys.argv[1], sys.argv[2], int(sys.argv[3])
moment = time.gmtime(epoch)[:6]
files = sorted(
    os.path.relpath(os.path.join(place, name), directory)
    for place, _, names in os.walk(directory)
    for name in names
)
info = next(name.split("/")[0] for name in files if ".dist-info/" in name)
record = ""
with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:

    def add(name, data, mode):
        entry = zipfile.ZipInfo(name, moment)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        wheel.writestr(entry, data)

    for name in files:
        with open(os.path.join(directory, name), "rb") as file:
            data = file.read()
        add(name, data, 0o755 if "/scripts/" in name else 0o644)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    add(f"{info}/RECORD", record + f"{info}/RECORD,,\n", 0o644)
