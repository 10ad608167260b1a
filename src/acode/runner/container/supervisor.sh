# Runs the attempts of one worker inside its container, one at a time: sh supervisor DIRECTORY
#
# Orders come through the pipe `in`, answers go to the pipe `reply`, output to `out` and `err`.
# A session begins when somebody opens the pipes and ends when he says so or is gone. At its end
# everything in this container but us is killed, so nothing of an attempt can outlive it, however
# it hides, and nobody has to be alive to give the order.

dir=$1

# "kill -1" means everybody: only where everybody is a container of our own.
if [ "$ACODE_CONTAINER" != "$dir" ] || [ "$PPID" -gt 1 ]; then
    echo "this runs as the first process of an acode container only" >&2
    exit 64
fi

# A session of its own keeps a command's `kill 0` from us. Nearly every image can do that.
lead=
command -v setsid >/dev/null 2>&1 && lead=setsid

field() { # FILE KEY: the value beside a key
    value=
    while read -r key rest; do
        [ "$key" = "$2" ] && value=$rest
    done <"$1"
}

measure() { # sets oom (kills so far), cpu (nanoseconds) and peak (bytes), as far as they are known
    oom=0 cpu=0 peak=0
    if [ -r /sys/fs/cgroup/memory.events ]; then
        field /sys/fs/cgroup/memory.events oom_kill && oom=${value:-0}
        field /sys/fs/cgroup/cpu.stat usage_usec && cpu=${value:-0}000
        [ -r /sys/fs/cgroup/memory.peak ] && read -r peak </sys/fs/cgroup/memory.peak
    elif [ -r /sys/fs/cgroup/memory/memory.oom_control ]; then
        field /sys/fs/cgroup/memory/memory.oom_control oom_kill && oom=${value:-0}
        [ -r /sys/fs/cgroup/cpuacct/cpuacct.usage ] && read -r cpu </sys/fs/cgroup/cpuacct/cpuacct.usage
        [ -r /sys/fs/cgroup/memory/memory.max_usage_in_bytes ] && read -r peak </sys/fs/cgroup/memory/memory.max_usage_in_bytes
    fi
}

attempt() { # in the background: one command from its start to its end
    # Whoever asks politely means the command, not us. It can be asked from "begun" on.
    trap '' TERM HUP INT
    measure
    oom_before=$oom cpu_before=$cpu peak_before=$peak
    (
        # The kernel takes the command before us when memory runs out.
        { echo 500 >/proc/self/oom_score_adj; } 2>/dev/null
        trap - TERM HUP INT
        echo "begun $session" >&4
        . "$dir/order"
    ) </dev/null >"$dir/out" 2>"$dir/err" 3<&- &
    wait $!
    status=$?
    measure
    [ "$peak" -gt "$peak_before" ] || peak=0
    echo "end $session $status $((oom - oom_before)) $((cpu - cpu_before)) $peak" >&4
}

serve() { # one session
    while read -r verb word <&3; do
        case $verb in
        hello) session=$word && echo "hello $session" >&4 ;;
        run) attempt & ;;
        term) kill -TERM -1 2>/dev/null && kill -CONT -1 2>/dev/null ;;
        quit)
            wait # for the attempt, which has told its end
            ask_strays
            return
            ;;
        esac
    done
}

ask_strays() { # what a command left behind may end by itself, if it hurries
    strays=none
    kill -TERM -1 2>/dev/null || return
    strays=some turns=0
    while [ $turns -lt 25 ] && kill -0 -1 2>/dev/null; do
        sleep 0.02 2>/dev/null
        turns=$((turns + 1))
    done
}

clear() { # everybody else dies
    while kill -KILL -1 2>/dev/null; do
        wait
        sleep 0.01 2>/dev/null
    done
    wait
}

# Whoever asked may be gone before he is answered. A handler, unlike a deaf ear, is not inherited.
trap : PIPE
session=none
while :; do
    strays=none
    exec 3<"$dir/in" 4>"$dir/reply"
    serve
    clear
    echo "gone $session $strays" >&4 2>/dev/null
    exec 3<&- 4>&-
done
