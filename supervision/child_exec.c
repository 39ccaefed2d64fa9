/* Runs in the child: drops what it inherited from the parent, and executes the program. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervision/child_priv.h"

static void restore_signals(void)
{
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int signal = 1; signal < NSIG; signal++) (void)sigaction(signal, &standard, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

struct result child_begin(const struct user *user, int death_signal, pid_t parent, struct error *err)
{
    (void)setpgid(0, 0); /* a Ctrl-C is for the parent, which stops its children in order */
    if (user != NULL) TRY(user_become(user, err));
    /* After the change of user, which would reset it. */
    if (prctl(PR_SET_PDEATHSIG, death_signal) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no parent-death signal: %s", strerror(errno));
    if (getppid() != parent) _exit(1);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failure(err, ERROR_UNAVAILABLE, "no_new_privs: %s", strerror(errno));
    restore_signals();
    return SUCCESS;
}

static struct result raise_descriptor(int from, int *raised_out, struct error *err)
{
    const int raised = fcntl(from, F_DUPFD_CLOEXEC, CHILD_DESCRIPTOR_END);

    if (raised < 0) return failure(err, ERROR_UNAVAILABLE, "no descriptor for a program: %s", strerror(errno));
    *raised_out = raised;
    return SUCCESS;
}

/* First moves all of them above the target numbers, so that none overwrites another. */
static struct result place_descriptors(const struct child_options *options, struct child_ends *ends, struct error *err)
{
    int raised[CHILD_DESCRIPTORS_MAX] = {0};

    TRY(raise_descriptor(ends->program, &ends->program, err));
    TRY(raise_descriptor(ends->report, &ends->report, err));
    for (size_t i = 0; i < options->descriptor_count; i++) TRY(raise_descriptor(options->descriptors[i].from, &raised[i], err));
    if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the descriptors of the parent can't be closed: %s", strerror(errno));
    for (size_t i = 0; i < options->descriptor_count; i++)
        if (dup2(raised[i], options->descriptors[i].to) < 0)
            return failure(err, ERROR_UNAVAILABLE, "no descriptor %d for a program: %s", options->descriptors[i].to,
                           strerror(errno));
    return SUCCESS;
}

static struct result become(const struct child_options *options, struct child_ends *ends, pid_t parent, struct error *err)
{
    const char *directory = options->directory == NULL ? "/" : options->directory;

    if (options->prepare != NULL) TRY(options->prepare(options->context, err));
    TRY(child_begin(options->user, options->death_signal, parent, err));
    if (chdir(directory) != 0) return failure(err, ERROR_UNAVAILABLE, "can't start in %s: %s", directory, strerror(errno));
    (void)umask(077);
    TRY(place_descriptors(options, ends, err));
    if (options->confine != NULL) TRY(options->confine(options->context, err));
    (void)fexecve(ends->program, options->arguments, options->environment);
    return failure(err, ERROR_UNAVAILABLE, "can't start %s: %s", options->arguments[0], strerror(errno));
}

_Noreturn void child_give_up(const struct child_ends *ends, const struct error *err)
{
    (void)!write(ends->report, err, sizeof *err);
    _exit(126);
}

_Noreturn void child_become_program(const struct child_options *options, const struct child_ends *ends, pid_t parent)
{
    struct child_ends own = *ends;
    struct error err = {0};

    (void)become(options, &own, parent, &err).ok;
    child_give_up(&own, &err);
}
