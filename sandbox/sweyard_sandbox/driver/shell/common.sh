# Runs commands for one client over stdin (requests) and stdout (answers). POSIX sh: dash, busybox ash, bash.
#
# Requests, one line each, some followed by a payload; other lines are ignored:
#   init SECRET LINES STREAM LEDGER   first, and once: evaluate LINES lines (exports for all commands)
#   run ID LEDGER BLOCKS LINES    LINES lines that set $prelude (evaluated before the command), $command, and $words: 1
#                                 when the command is but a program's name and its arguments
#   put NAME BYTES                store BYTES raw bytes as NAME.$$ in the spool
#   kill ID SIGNAL | status ID LEDGER | forget LEDGER ID...
# Answers: what commands write, as it comes, and between it marks, which begin with the secret and end with the line:
#   hello EXACT SPOOL LEDGER BORN EXACT: 1 when `head -c` takes no byte too many from a pipe; BORN: process 1's begin
#   end ID CODE OOM CUT           the command's shell ended; all that it wrote before came before this mark
#   begin ID | resume ID          what came before is not this command's; its output follows (resume: all of it again)
#   unknown ID | refused ID | ruined ID | dropped ID (it was not begun, and never will be) | lacks TOOL...
#                                 (ruined: nor could any other, for a command removed the tools)
#   lost ID                       this driver did not begin it and will not; whether another one did, nobody knows now
#
# A fork costs more than all else, so a command is one fork: of `serve`, a shell in a session of its own that runs one
# command after the other in the foreground (a shell makes its background commands ignore SIGINT and SIGQUIT). All write
# into one pipe. tee copies it to the client, and to a file for the case that the stream breaks, which is emptied before
# each command. The mark goes through the pipe too, behind all that was written before. `control` meanwhile reads
# requests and answers at once.
#
# Such a generation of serve, pipe and tee ends, and the next command gets a new one, when a background child of a command
# still holds the pipe, when a signal to a command's group killed serve, and when output went past the cap: then
# tee dies of its file's limit, and the rest is read and dropped.
#
# What makes a command run once is the file ID, its claim: whoever made it may begin the command, and the system makes it
# for one driver only. That holds as long as claims are remembered, to which the file LEDGER in the same folder bears
# witness: its name is never given twice, it is made before all claims under it and looked for after each. A spool that
# was removed, in part or put back, has it no more, and then nothing is begun. Claims are forgotten in the order of
# their ids, and LEDGER.floor names the last of them.
#
# Else in the spool, for a command: ID.run, ID.code, ID.dead (it must not begin any more). For a generation, named g and
# its first command: g.now (the command), g.serve, g.group, g.collector, g.tee (processes), g.out, g.next (a request that
# it leaves to the next one), g.cut (tee is gone before its time: nothing goes through the pipe), g.off (nothing of it
# goes to the stream any more). Besides: driver, generation (the newest ones).
#
# Lines that begin with #@ name points at which tests stop a driver.

# Marks begin without a newline: shells write what follows one separately, and others may write in between.
mark() { printf -- '-%s-%s\n' "$secret" "$*" >&3; }

inband_mark() { # ID RESULT: into the pipe
  printf -- '-%s-end %s %s 0\n' "$secret" "$1" "$2"
}

lines() { # N: the next N lines of the stream into $text
  text= n=$1
  while [ "$n" -gt 0 ]; do
    IFS= read -r line || exit
    text="$text$line
"
    n=$((n - 1))
  done
  text=${text%?}
}

oom_kills() { # into $kills
  kills=0
  [ -n "$memory_events" ] || return
  while read -r key value; do [ "$key" = oom_kill ] && kills=$value; done <"$memory_events"
}

lives() { # FILE: the process whose number is in it
  [ -s "$1" ] && read -r pid <"$1" && kill -0 "$pid"
}

own_pid() { read -r pid rest </proc/self/stat && echo "$pid" >"$1"; }
