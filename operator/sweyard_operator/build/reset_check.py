"""What a sandbox that may be recycled does first: it proves that nothing of an earlier use is left in its pod.

The kubelet makes the container itself anew: file system, processes, /dev. What belongs to the pod outlives that, so the
new process 1, with the image's own tools and before anything else can run, empties /dev/shm and looks at the rest. It
says "clean" where only the kubelet of this container's own life looks (a termination log is made for each), or ends.
"""

from typing import Any

from sweyard_operator.build.resolver import RESOLV_CONFS

DIRTY_EXIT_CODE = 77
"""Process 1 found what it may not; the termination message is a word and what was found."""

_CHECK = """\
dirty() { printf %s "$1: $2" >/dev/termination-log; exit $dirty; }
rm -rf /dev/shm/* /dev/shm/.[!.]* /dev/shm/..?*
for left in /dev/shm/* /dev/shm/.[!.]* /dev/shm/..?* /dev/mqueue/* /dev/mqueue/.[!.]* /dev/mqueue/..?*; do
  if [ -e "$left" ] || [ -L "$left" ]; then dirty SharedMemory "$left"; fi
done
for table in sysvipc/shm sysvipc/sem sysvipc/msg net/tcp net/tcp6; do
  [ -r /proc/$table ] || { [ $table = net/tcp6 ] && continue; dirty Unproven "/proc/$table cannot be read"; }
  { read -r head; if read -r left; then dirty Kernel "/proc/$table: $left"; fi; } </proc/$table
done
host=$(cat /proc/sys/kernel/hostname)
[ "$(cat /etc/hostname)" = "$host" ] || dirty Files /etc/hostname
case $(cat /etc/resolv.conf) in "$resolv_conf" | "$resolv_conf_turned") ;; *) dirty Files /etc/resolv.conf ;; esac
left=$(grep -v -x -e '# Kubernetes-managed hosts file.' -e '127.0.0.1.localhost' -e '::1.localhost[-a-z0-9 ]*' \
  -e 'fe00::[012]*.ip6-[a-z]*' -e "[0-9a-f.:]*.$host" /etc/hosts)
[ -z "$left" ] || dirty Files "/etc/hosts: $left"
for file in /etc/hosts /etc/hostname /etc/resolv.conf /dev/shm; do
  set -- $(ls -ldn $file)
  case $1:$3:$4 in
  -rw-r--r--:0:0 | -rw-r--r--.:0:0 | drwxrwxrwt:0:0 | drwxrwxrwt.:0:0) ;;
  *) dirty Files "$file: $1 $3:$4" ;;
  esac
done
if [ -w /etc/hosts ] && command -v python3 >/dev/null; then
  python3 -ISc 'import os, sys
sys.exit(3 * any(name[:5] in ("user.", "syste") for path in sys.argv[1:] for name in os.listxattr(path)))' \
    /etc/hosts /etc/hostname /etc/resolv.conf /dev/shm 2>/dev/null
  [ $? != 3 ] || dirty Files "extended attributes"
fi
echo clean >/dev/termination-log
"""
_RESOLV_CONF, _TURNED = RESOLV_CONFS
_GIVEN = f"dirty={DIRTY_EXIT_CODE}\nresolv_conf='{_RESOLV_CONF}'\nresolv_conf_turned='{_TURNED}'\n"
_IS_CLEAN = 'read -r said </dev/termination-log && [ "$said" = clean ]'
_PATIENCE_SECONDS = 60


def with_check(container: dict[str, Any]) -> dict[str, Any]:
    """`container` such that it is Ready only after the check; its command is `/bin/sh -c SCRIPT`."""
    *shell, script = container["command"]
    probe = {"exec": {"command": [*shell, _IS_CLEAN]}, "periodSeconds": 1, "failureThreshold": _PATIENCE_SECONDS}
    return {**container, "command": [*shell, _GIVEN + _CHECK + script], "startupProbe": {**probe, "timeoutSeconds": 5}}
