#include "tests/support/stack.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/decision_make.h"
#include "base/memory.h"
#include "base/text.h"
#include "tests/support/unit.h"

#define ORIGIN "test.example/audit"

static void write_passphrase(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "test\n", 5), 5);
    (void)close(fd);
}

static int start(char *const *arguments)
{
    const int pid = fork();

    assert_true(pid >= 0);
    if (pid > 0) return pid;
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)dup2(null, STDERR_FILENO);
    (void)execv(arguments[0], arguments);
    _exit(127);
}

static void wait_until_it_serves(struct stack *stack)
{
    struct keyd_identity identity;
    struct error err = {0};

    for (int i = 0; i < 200; i++) {
        if (keyd_identify(stack->keyd, &identity, &err).ok) return;
        (void)usleep(50000);
    }
    fail_msg("sijil-keyd: %s", err.message);
}

static void start_keyd(struct stack *stack)
{
    char *program = getenv("SIJIL_KEYD");
    char directory[64], passphrase[96], socket[96];
    int status = 0;
    struct error err = {0};

    if (program == NULL) fail_msg("run this with ctest, which sets SIJIL_KEYD");
    (void)snprintf(stack->directory, sizeof stack->directory, "/tmp/sijil_stack_XXXXXX");
    assert_non_null(mkdtemp(stack->directory));
    (void)snprintf(stack->socket, sizeof stack->socket, "%s/socket", stack->directory);
    (void)snprintf(directory, sizeof directory, "--directory=%s", stack->directory);
    (void)snprintf(passphrase, sizeof passphrase, "--passphrase-file=%s/word", stack->directory);
    (void)snprintf(socket, sizeof socket, "--socket=%s", stack->socket);
    write_passphrase(strchr(passphrase, '=') + 1);
    char *make[] = {program, directory, passphrase, (char[]){"--init"}, (char[]){"--origin=" ORIGIN}, NULL};
    assert_int_equal(waitpid(start(make), &status, 0) > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
    char *serve[] = {program, directory, passphrase, socket, NULL};
    stack->keyd_pid = start(serve);
    if (!keyd_client_new(stack->socket, 10000, &stack->keyd, &err).ok) fail_msg("%s", err.message);
    wait_until_it_serves(stack);
}

struct stack *stack_new(const struct pg_table *const *tables)
{
    struct sequencer_options options = {.tables = tables, .origin = ORIGIN, .instance = "test", .deadline_ms = 20000};
    struct stack *stack = memory_zeroed(1, sizeof *stack);
    struct error err = {0};

    assert_non_null(stack);
    stack->database = database_new();
    start_keyd(stack);
    options.conninfo = database_app(stack->database);
    options.keyd = stack->keyd;
    if (!sequencer_start(&options, &stack->sequencer, &err).ok) fail_msg("sequencer: %s", err.message);
    if (!pg_open(database_app(stack->database), tables, &stack->pg, &err).ok) fail_msg("%s", err.message);
    return stack;
}

static uint64_t epoch_now(struct stack *stack)
{
    uint64_t epoch = 0;

    assert_true(text_to_u64(
        bytes_of_text(database_ask(stack->database, "SELECT epoch::text FROM authorization_epoch")), UINT64_MAX, &epoch));
    return epoch;
}

struct result stack_record(struct stack *stack, const struct action_pair *pairs, size_t count, struct change *change,
                           struct permit **permit_out, struct error *err)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .epoch = epoch_now(stack), .pair_count = count};
    struct record record = {.change = change, .context = {.client_address = "127.0.0.1"}};

    (void)snprintf(parts.id, sizeof parts.id, "sha256:%064d", 0);
    memcpy(parts.pairs, pairs, count * sizeof *pairs);
    TRY(decision_make(&parts, &record.decision, err));
    sequencer_submit_and_wait(stack->sequencer, &record);
    const enum record_status status = record.status;
    if (status == RECORD_DONE && permit_out != NULL) *permit_out = GIVE(record.permit);
    *err = record.error;
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    if (status == RECORD_REFUSED) return (struct result){.ok = false};
    return failure(err, ERROR_UNAVAILABLE, "record status %d", (int)status);
}

struct permit *stack_permit(struct stack *stack, enum action action, const struct resource *where)
{
    const struct action_pair pair = {.action = action, .resource = *where};
    struct permit *permit = NULL;
    struct error err = {0};

    if (!stack_record(stack, &pair, 1, NULL, &permit, &err).ok) fail_msg("%s: %s", action_name(action), err.message);
    return permit;
}

unsigned stack_events(struct stack *stack, const char *action, const char *outcome)
{
    char sql[160];
    uint64_t count = 0;

    (void)snprintf(sql, sizeof sql, "SELECT count(*)::text FROM audit_entry WHERE action = '%s' AND outcome = '%s'",
                   action, outcome);
    assert_true(text_to_u64(bytes_of_text(database_ask(stack->database, sql)), UINT32_MAX, &count));
    return (unsigned)count;
}

void stack_free(struct stack *stack)
{
    char command[64];

    if (stack == NULL) return;
    pg_free(stack->pg);
    sequencer_free(stack->sequencer);
    keyd_client_free(stack->keyd);
    if (stack->keyd_pid > 0) {
        (void)kill(stack->keyd_pid, SIGTERM);
        (void)waitpid(stack->keyd_pid, NULL, 0);
    }
    (void)snprintf(command, sizeof command, "rm -rf -- %s", stack->directory);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own mkdtemp() name */
    database_free(stack->database);
    free(stack);
}
