/* From the start of bwrap(1) to the program's first instruction. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "client/terminal.h"
#include "runner/sandbox/nodes.h"
#include "runner/sandbox/sandbox_priv.h"

#define READY_MS        30000 /* bwrap takes milliseconds; a busy machine takes seconds */
#define COMPLAINT_MS    200
#define OPEN_FILES_MAX  4096
#define OWN_PROCESSES   2 /* bwrap's own process inside counts, too; and one process may end while another begins */
#define FIXED_ARGUMENTS 15
#define ARGUMENT_SIZE   24  /* a number */
#define PLACES_SIZE     512 /* nine pairs of numbers */

static struct result limit(int what, int64_t most, struct error *err)
{
    struct rlimit limits;
    const rlim_t wanted = (rlim_t)most;

    if (getrlimit((__rlimit_resource_t)what, &limits) != 0)
        return failure(err, ERROR_UNAVAILABLE, "limit %d: %s", what, strerror(errno));
    if (limits.rlim_max < wanted) return SUCCESS; /* the administrator's limit is lower */
    limits = (struct rlimit){wanted, wanted};
    if (setrlimit((__rlimit_resource_t)what, &limits) == 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "limit %d can't be set: %s", what, strerror(errno));
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* In the child, before it changes its user. */
static struct result prepare(void *context, struct error *err)
{
    const struct sandbox *sandbox = context;
    const struct run_limits *limits = sandbox->options->limits;

    if (sandbox->cgroup != NULL) TRY(cgroup_join(sandbox->cgroup, err));
    TRY(limit(RLIMIT_CORE, 0, err));
    TRY(limit(RLIMIT_NOFILE, OPEN_FILES_MAX, err));
    TRY(limit(RLIMIT_FSIZE, larger(limits->output_bytes, limits->memory_bytes), err));
    TRY(limit(RLIMIT_CPU, limits->time_s * limits->cpus + limits->grace_s, err));
    return sandbox->cgroup == NULL ? limit(RLIMIT_AS, limits->memory_bytes, err) : SUCCESS;
}

/* The command line of bwrap; `numbers` holds the texts that are made here. */
struct command {
    char **words;
    size_t count;
    char channel[ARGUMENT_SIZE], processes[ARGUMENT_SIZE], tasks[ARGUMENT_SIZE], grace[ARGUMENT_SIZE], places[PLACES_SIZE];
    struct proof_address addresses[PROOF_ADDRESSES_MAX];
};

static void add(struct command *command, const char *word)
{
    command->words[command->count++] = (char *)(uintptr_t)word;
}

enum { ARGUMENTS_AT = 3, FILTER_AT = 4, CHANNEL_AT = 5 };

/* Lists folders of this machine, in a form in which sijil-inside recognises them: no folder of an image may be one of these. */
static void list_places(char places[PLACES_SIZE])
{
    static const char *const names[] = {"/", "/usr", "/etc", "/var", "/home", "/root", "/srv", "/opt", "/boot"};
    size_t length = 0;
    struct stat about;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (stat(names[i], &about) == 0)
            length += (size_t)snprintf(places + length, PLACES_SIZE - length, "%s%llu:%llu", length == 0 ? "" : ",",
                                       (unsigned long long)about.st_dev, (unsigned long long)about.st_ino);
}

static void write_numbers(const struct sandbox_options *options, struct command *command)
{
    const long long own = OWN_PROCESSES + (options->tasks > 1 ? 1 : 0); /* with several tasks sijil-inside stays */

    (void)snprintf(command->channel, sizeof command->channel, "%d", CHANNEL_AT);
    (void)snprintf(command->processes, sizeof command->processes, "%lld", (long long)options->limits->processes + own);
    (void)snprintf(command->tasks, sizeof command->tasks, "%u", options->tasks);
    (void)snprintf(command->grace, sizeof command->grace, "%lld", (long long)options->limits->grace_s);
    (void)snprintf(command->places, sizeof command->places, "-");
    if (options->image != NULL) list_places(command->places);
}

static struct result make_command(struct sandbox *sandbox, struct command *command, struct error *err)
{
    const struct sandbox_options *options = sandbox->options;
    size_t words = 0;

    while (options->arguments[words] != NULL) words++;
    command->words = memory_zeroed(words + FIXED_ARGUMENTS + (size_t)2 * PROOF_ADDRESSES_MAX, sizeof *command->words);
    if (command->words == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a command line");
    sandbox->report.address_count = proof_addresses(options->addresses, options->address_count, command->addresses);
    write_numbers(options, command);
    const char *const begin[] = {
        BUBBLEWRAP,      "--args",       "3",           "--", BUBBLEWRAP_INSIDE, command->channel, command->processes,
        command->places, command->tasks, command->grace};
    for (size_t i = 0; i < sizeof begin / sizeof begin[0]; i++) add(command, begin[i]);
    for (size_t i = 0; i < sandbox->report.address_count; i++) {
        add(command, command->addresses[i].address);
        add(command, command->addresses[i].port);
    }
    add(command, "--");
    for (size_t i = 0; i < words; i++) add(command, options->arguments[i]);
    return SUCCESS;
}

static void command_done(struct command *command)
{
    free(command->words);
}

static struct result start_bwrap(struct sandbox *sandbox, struct error *err)
{
    static char *const nothing[] = {NULL};
    __attribute__((cleanup(command_done))) struct command command = {0};
    struct child_descriptor placed[6] = {{0}};
    OWNED_FD null = -1;

    TRY(make_command(sandbox, &command, err));
    TRY(file_open("/dev/null", O_RDONLY, 0, &null, err));
    child_output_ends(sandbox->printed, placed);
    placed[2] = (struct child_descriptor){null, STDIN_FILENO};
    placed[3] = (struct child_descriptor){sandbox->arguments, ARGUMENTS_AT};
    placed[4] = (struct child_descriptor){sandbox->filter, FILTER_AT};
    placed[5] = (struct child_descriptor){sandbox->channel[1], CHANNEL_AT};
    const struct child_options options = {.arguments = command.words,
                                          .environment = nothing,
                                          .user = sandbox->changes_user ? &sandbox->user : NULL,
                                          .descriptors = placed,
                                          .descriptor_count = 6,
                                          .death_signal = SIGKILL,
                                          .prepare = prepare,
                                          .context = sandbox,
                                          .whole_tree = true,
                                          .stop_signal = SIGKILL};
    const struct result started = child_start(&options, &sandbox->keeper, err);
    file_close_owned(&sandbox->channel[1]);
    sandbox->channel[1] = -1;
    return started;
}

/* bwrap's error output, in one line. */
static struct result say_complaint(struct sandbox *sandbox, const char *what, struct error *err)
{
    struct error untold;
    char shown[160];
    bool open = true;

    for (int i = 0; i < 4 && open; i++)
        if (!child_output_read(sandbox->printed, COMPLAINT_MS, &open, &untold).ok) break;
    const char *said = buffer_text(&sandbox->complaint);
    (void)snprintf(shown, sizeof shown, "%.*s", (int)strcspn(said, "\n"), said);
    terminal_sanitize(shown);
    return failure(err, ERROR_UNAVAILABLE, "%s%s%s", what, shown[0] == '\0' ? "" : ": ", shown);
}

static struct result wait_until_ready(struct sandbox *sandbox, struct error *err)
{
    struct proof_message message;
    struct error silent;

    if (!proof_receive(sandbox->channel[0], READY_MS, &message, &silent).ok || message.is_end)
        return say_complaint(sandbox, "the sandbox can't be made ('sijil-runner check' says what is missing)", err);
    if (strncmp(message.text, "open: ", 6) == 0)
        return failure(err, ERROR_DENIED, "the sandbox is not closed, so nothing was started: %.160s", message.text + 6);
    if (strcmp(message.text, "ready") != 0 || message.sender <= 0)
        return failure(err, ERROR_UNAVAILABLE, "the sandbox does not answer as agreed");
    sandbox->payload = message.sender;
    return SUCCESS;
}

/* A folder of the sandbox. Its file system stays as long as the descriptor, also when all processes have ended. */
static struct result open_inside(const struct sandbox *sandbox, const char *name, int *fd_out, struct error *err)
{
    char path[64]; /* a number and a short name */

    (void)snprintf(path, sizeof path, "/proc/%ld/root/%s", (long)sandbox->payload, name);
    return file_open(path, O_RDONLY | O_DIRECTORY, 0, fd_out, err);
}

static struct result hand_over_checkpoints(const struct sandbox *sandbox, struct error *err)
{
    OWNED_FD folder = -1;

    if (sandbox->options->checkpoints == NULL) return SUCCESS;
    TRY(open_inside(sandbox, "checkpoints", &folder, err));
    return sandbox->options->checkpoints(sandbox->options->context, folder, err);
}

static struct result say(const struct sandbox *sandbox, const char *word, struct error *err)
{
    if (send(sandbox->channel[0], word, strlen(word), MSG_NOSIGNAL) == (ssize_t)strlen(word)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the sandbox does not take a message: %s", strerror(errno));
}

/* The device must lead nowhere else, so the proof is made again. */
static struct result give_device(struct sandbox *sandbox, struct error *err)
{
    const struct sandbox_options *options = sandbox->options;
    int device = -1;

    if (options->device == NULL) return SUCCESS;
    TRY(nodes_make_device(sandbox->payload, options->node, options->nodes, &device, err));
    TRY(options->device(options->context, device, err));
    TRY(say(sandbox, "look", err));
    return wait_until_ready(sandbox, err);
}

static struct result give_word(struct sandbox *sandbox, struct error *err)
{
    struct proof_message message;

    sandbox->word_us = clock_monotonic_us();
    sandbox->began_ms = clock_monotonic_ms();
    TRY(say(sandbox, "go", err));
    sandbox->has_begun = true;
    TRY(proof_receive(sandbox->channel[0], READY_MS, &message, err));
    sandbox->report.start_us = clock_monotonic_us() - sandbox->word_us;
    return SUCCESS;
}

struct result sandbox_start(struct sandbox *sandbox, struct error *err)
{
    TRY(start_bwrap(sandbox, err));
    TRY(wait_until_ready(sandbox, err));
    TRY(open_inside(sandbox, "out", &sandbox->out, err));
    TRY(open_inside(sandbox, "run/sijil", &sandbox->beat, err));
    TRY(hand_over_checkpoints(sandbox, err));
    TRY(give_device(sandbox, err));
    if (sandbox->options->ready != NULL) TRY(sandbox->options->ready(sandbox->options->context, err));
    return give_word(sandbox, err);
}
