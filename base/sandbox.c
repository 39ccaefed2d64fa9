#include "base/sandbox.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/dump.h"

struct result sandbox_prepare(struct error *err)
{
    (void)umask(0077);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !dump_forbid_files())
        return failure(err, ERROR_UNAVAILABLE, "the process could not be closed off: %s", strerror(errno));
    return SUCCESS;
}

bool sandbox_lock_memory(void)
{
    struct rlimit limit = {0};

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_MEMLOCK, &limit);
    /* Under a limit, locking all memory would make later allocations fail; so only secrets are locked then. */
    if (limit.rlim_max != RLIM_INFINITY) return false;
    return mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0;
}

/* Computing, time, existing threads, and the sockets and the file that are open. */
static const int allowed[] = {
    SCMP_SYS(read),           SCMP_SYS(write),         SCMP_SYS(writev),          SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),       SCMP_SYS(fsync),         SCMP_SYS(fdatasync),       SCMP_SYS(close),
    SCMP_SYS(accept4),        SCMP_SYS(recvfrom),      SCMP_SYS(recvmsg),         SCMP_SYS(sendto),
    SCMP_SYS(sendmsg),        SCMP_SYS(shutdown),      SCMP_SYS(getsockopt),      SCMP_SYS(poll),
    SCMP_SYS(ppoll),          SCMP_SYS(futex),         SCMP_SYS(munmap),          SCMP_SYS(mremap),
    SCMP_SYS(madvise),        SCMP_SYS(mlock),         SCMP_SYS(munlock),         SCMP_SYS(brk),
    SCMP_SYS(getrandom),      SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction),  SCMP_SYS(rt_sigreturn),    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sigaltstack),    SCMP_SYS(sched_yield),   SCMP_SYS(getpid),          SCMP_SYS(gettid),
    SCMP_SYS(tgkill),         SCMP_SYS(exit),          SCMP_SYS(exit_group),      SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),           SCMP_SYS(fstat),         SCMP_SYS(restart_syscall), SCMP_SYS(sched_getaffinity),
};

static int fill(scmp_filter_ctx filter)
{
    int problem = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);

    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0] && problem == 0; i++)
        problem = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
    if (problem == 0) /* memory that is not executable */
        problem = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (problem == 0)
        problem = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    return problem;
}

/* `fill_in` adds the exceptions to `usual`. */
static struct result enter(uint32_t usual, int (*fill_in)(scmp_filter_ctx filter), struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(usual);

    if (filter == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the system call filter");
    int problem = fill_in(filter);
    if (problem == 0) problem = seccomp_load(filter);
    seccomp_release(filter);
    if (problem != 0) return failure(err, ERROR_UNAVAILABLE, "the kernel refuses the system call filter: %s", strerror(-problem));
    return SUCCESS;
}

struct result sandbox_enter(struct error *err)
{
    return enter(SCMP_ACT_ERRNO(EPERM), fill, err);
}

static const int denied_programs[] = {SCMP_SYS(execve), SCMP_SYS(execveat)};

static const int denied[] = {
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(kcmp),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(reboot),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(setuid),
    SCMP_SYS(setgid),
    SCMP_SYS(setreuid),
    SCMP_SYS(setregid),
    SCMP_SYS(setresuid),
    SCMP_SYS(setresgid),
    SCMP_SYS(setgroups),
    SCMP_SYS(capset),
};

static int deny(scmp_filter_ctx filter, const int *calls, size_t count)
{
    int problem = 0;

    for (size_t i = 0; i < count && problem == 0; i++) problem = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
    return problem;
}
#define DENY(filter, calls) deny((filter), (calls), sizeof(calls) / sizeof((calls)[0]))

static int fill_for_helper(scmp_filter_ctx filter)
{
    const int problem = DENY(filter, denied_programs);

    return problem == 0 ? DENY(filter, denied) : problem;
}

struct result sandbox_enter_helper(struct error *err)
{
    return enter(SCMP_ACT_ALLOW, fill_for_helper, err);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* At the end of the process, a helper process that shares its memory stops all threads to search for leaks. */
enum { HAS_SANITIZERS = 1 };
#else
enum { HAS_SANITIZERS = 0 };
#endif

/* These are denied in addition to the calls that a worker of keyd loses. The worker itself does not need them, but a vendor's
 * module might. */
static const int denied_to_others[] = {
    SCMP_SYS(keyctl),          SCMP_SYS(add_key),
    SCMP_SYS(request_key),     SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),  SCMP_SYS(io_uring_register),
    SCMP_SYS(mount_setattr),   SCMP_SYS(move_mount),
    SCMP_SYS(open_tree),       SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig),        SCMP_SYS(fsmount),
    SCMP_SYS(fspick),          SCMP_SYS(open_by_handle_at),
    SCMP_SYS(fanotify_init),   SCMP_SYS(personality),
    SCMP_SYS(syslog),          SCMP_SYS(acct),
    SCMP_SYS(quotactl),        SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),   SCMP_SYS(clock_adjtime),
    SCMP_SYS(adjtimex),        SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),   SCMP_SYS(iopl),
    SCMP_SYS(ioperm),          SCMP_SYS(modify_ldt),
    SCMP_SYS(mknod),           SCMP_SYS(mknodat),
    SCMP_SYS(process_madvise), SCMP_SYS(migrate_pages),
    SCMP_SYS(move_pages),      SCMP_SYS(setfsuid),
    SCMP_SYS(setfsgid),
};
static const int denied_processes[] = {SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(setpgid), SCMP_SYS(setsid)};

static bool is_of_sanitizers(int call)
{
    return HAS_SANITIZERS && (call == SCMP_SYS(ptrace) || call == SCMP_SYS(process_vm_readv));
}

static int deny_but_to_sanitizers(scmp_filter_ctx filter)
{
    int problem = 0;

    for (size_t i = 0; i < sizeof denied / sizeof denied[0] && problem == 0; i++)
        if (!is_of_sanitizers(denied[i])) problem = deny(filter, &denied[i], 1);
    return problem;
}

/* A new thread is not a new process. The flags of clone3() are in memory, where a filter can't see them; without
 * clone3() the C library uses clone(). */
static int deny_processes(scmp_filter_ctx filter)
{
    if (HAS_SANITIZERS) return 0;
    const int problem = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

    if (problem != 0) return problem;
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
}

static int fill_for_gateway(scmp_filter_ctx filter)
{
    int problem = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);

    if (problem == 0) problem = DENY(filter, denied_programs);
    if (problem == 0) problem = deny_but_to_sanitizers(filter);
    if (problem == 0) problem = DENY(filter, denied_to_others);
    if (problem == 0) problem = DENY(filter, denied_processes);
    return problem == 0 ? deny_processes(filter) : problem;
}

struct result sandbox_enter_gateway(struct error *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failure(err, ERROR_UNAVAILABLE, "no_new_privs: %s", strerror(errno));
    return enter(SCMP_ACT_ALLOW, fill_for_gateway, err);
}

/* One rule for each bit, because a filter can't test whether any of several bits is set. clone3() as for the gateway. */
static int deny_namespaces(scmp_filter_ctx filter)
{
    static const uint64_t namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                          CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    int problem = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

    for (size_t i = 0; i < sizeof namespaces / sizeof namespaces[0] && problem == 0; i++)
        problem = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                   SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
    return problem;
}

static int fill_for_program(scmp_filter_ctx filter)
{
    int problem = DENY(filter, denied);

    if (problem == 0) problem = DENY(filter, denied_to_others);
    if (problem == 0) /* TIOCSTI types into the terminal that started us */
        problem =
            seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, TIOCSTI));
    return problem == 0 ? deny_namespaces(filter) : problem;
}

struct result sandbox_enter_program(struct error *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failure(err, ERROR_UNAVAILABLE, "no_new_privs: %s", strerror(errno));
    return enter(SCMP_ACT_ALLOW, fill_for_program, err);
}
