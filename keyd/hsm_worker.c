/* The processes with the vendor's module in them: the workers, and the supervisor that replaces them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sandbox.h"
#include "crypto/secret.h"
#include "keyd/hsm_priv.h"

enum { RESPAWN_MS = 1000 }; /* so a module that crashes at once does not use up a processor */

struct state {
    const struct hsm_worker *worker;
    struct pkcs11 *pkcs11; /* NULL: not open */
    timer_t watchdog;
};

void hsm_close_others(const int *kept, size_t count)
{
    unsigned next = 3;

    for (;;) { /* find the smallest kept descriptor from `next` on */
        unsigned nearest = ~0U;
        for (size_t i = 0; i < count; i++)
            if ((unsigned)kept[i] >= next && (unsigned)kept[i] < nearest) nearest = (unsigned)kept[i];
        if (nearest > next) (void)close_range(next, nearest - 1, 0);
        if (nearest == ~0U) return;
        next = nearest + 1;
    }
}

/* ---- A worker ---- */

/* SIGKILL, because no module can block it. */
static void arm(const struct state *state, unsigned ms)
{
    const struct itimerspec time = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}};

    (void)timer_settime(state->watchdog, 0, &time, NULL);
}

static struct result open_token(struct state *state, struct error *err)
{
    const struct pkcs11_options options = {
        .module = state->worker->options.module, .token = state->worker->options.token, .pin = state->worker->pin};

    if (state->pkcs11 != NULL) return SUCCESS;
    if (*state->worker->pin_refused)
        return failure(err, ERROR_DENIED, "the token refused the PIN: give the right one and start sijil-keyd again");
    const struct result opened = pkcs11_open(&options, &state->pkcs11, err);
    if (!opened.ok && err->kind == ERROR_DENIED) *state->worker->pin_refused = 1;
    return opened;
}

struct request {
    uint64_t number;
    uint8_t operation;
    struct pkcs11_box box;
    struct bytes data;
};

static bool read_request(struct bytes message, struct request *request)
{
    struct reader reader = reader_of(message);

    request->number = reader_u64(&reader);
    request->operation = reader_u8(&reader);
    request->box.id = reader_take(&reader, PKCS11_ID_SIZE).data;
    const uint16_t length = reader_u16(&reader);
    request->box.associated = reader_take(&reader, length);
    if (reader.failed) return false;
    const size_t before = HSM_HEADER_SIZE + (size_t)length;
    request->data = (struct bytes){message.data + before, message.length - before};
    return request->data.length <= HSM_DATA_MAX;
}

static struct result make(struct state *state, const struct request *request, struct error *err)
{
    char label[64]; /* "sijil key-encryption key v4294967295" */

    if (request->data.length != 4) return failure(err, ERROR_INVALID, "a key without a version");
    (void)snprintf(label, sizeof label, "sijil key-encryption key v%u", load_u32(request->data.data));
    return pkcs11_make_key(state->pkcs11, request->box.id, label, err);
}

static struct result operate(struct state *state, const struct request *request, uint8_t *out, size_t *length, struct error *err)
{
    *length = 0;
    switch ((enum hsm_operation)request->operation) {
    case HSM_CHECK: return SUCCESS;
    case HSM_MAKE: return make(state, request, err);
    case HSM_DESTROY: return pkcs11_destroy_key(state->pkcs11, request->box.id, err);
    case HSM_SEAL:
        *length = request->data.length + PKCS11_OVERHEAD;
        return pkcs11_seal(state->pkcs11, &request->box, request->data, out, err);
    case HSM_UNSEAL:
        if (request->data.length <= PKCS11_OVERHEAD) return failure(err, ERROR_CORRUPT, "a wrapped key of the wrong length");
        *length = request->data.length - PKCS11_OVERHEAD;
        return pkcs11_unseal(state->pkcs11, &request->box, request->data, out, err);
    default: return failure(err, ERROR_INVALID, "there is no such operation of a token");
    }
}

/* If a session was lost, or the token was removed and inserted again, opens it once more. */
static struct result serve_request(struct state *state, const struct request *request, uint8_t *out, size_t *length,
                                   struct error *err)
{
    const bool was_open = state->pkcs11 != NULL;

    TRY(open_token(state, err));
    const struct result result = operate(state, request, out, length, err);
    if (result.ok || err->kind == ERROR_CORRUPT || err->kind == ERROR_INVALID) return result;
    pkcs11_free(state->pkcs11);
    state->pkcs11 = NULL;
    if (!was_open) return result;
    TRY(open_token(state, err));
    return operate(state, request, out, length, err);
}

static void answer(struct state *state, int socket, struct bytes message)
{
    uint8_t reply[HSM_REPLY_MAX] = {0};
    struct error err = {0};
    struct request request = {.number = 0};
    size_t length = 0;

    if (!read_request(message, &request)) return;
    arm(state, state->worker->options.timeout_ms);
    const bool ok = serve_request(state, &request, reply + HSM_REPLY_HEADER, &length, &err).ok;
    arm(state, 0);
    store_u64(reply, request.number);
    if (!ok) {
        reply[8] = (uint8_t)err.kind;
        length = strlen(err.message);
        memcpy(reply + HSM_REPLY_HEADER, err.message, length);
    }
    (void)send(socket, reply, HSM_REPLY_HEADER + length, MSG_NOSIGNAL);
    secret_wipe(reply, sizeof reply);
}

_Noreturn void hsm_worker_run(const struct hsm_worker *worker, int socket)
{
    struct sigevent kill = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct state state = {.worker = worker};
    uint8_t message[HSM_MESSAGE_MAX];
    struct error err = {0};

    (void)prctl(PR_SET_NAME, "keyd-token");
    (void)mlock(worker->pin.data, worker->pin.length);
    if (timer_create(CLOCK_MONOTONIC, &kill, &state.watchdog) != 0 || !sandbox_enter_helper(&err).ok) _exit(EXIT_FAILURE);
    for (;;) {
        const ssize_t length = recv(socket, message, sizeof message, 0);
        if (length < 0 && errno == EINTR) continue;
        if (length <= 0) _exit(EXIT_SUCCESS); /* keyd has ended */
        answer(&state, socket, (struct bytes){message, (size_t)length});
        secret_wipe(message, sizeof message);
    }
}

/* ---- The supervisor ---- */

static pid_t spawn(const struct hsm_worker *worker, int socket)
{
    const pid_t parent = getpid(), pid = fork();

    if (pid != 0) return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_FAILURE);
    hsm_close_others(&socket, 1);
    hsm_worker_run(worker, socket);
}

static void wait_ms(int64_t ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    if (ms > 0) (void)nanosleep(&time, NULL);
}

static void send_status(int status)
{
    char how[32]; /* "signal 11" */

    if (WIFSIGNALED(status)) (void)snprintf(how, sizeof how, "signal %d", WTERMSIG(status));
    else (void)snprintf(how, sizeof how, "status %d", WEXITSTATUS(status));
    log_line(LOG_WARNING, "a worker of the token ended and is replaced: its module crashed, or took too long", "with", how, NULL);
}

_Noreturn void hsm_supervise(const struct hsm_worker *worker, const int *sockets, size_t count)
{
    pid_t workers[8] = {0}; /* as many as there are sockets */
    int64_t started_ms = clock_monotonic_ms();
    size_t alive = 0;

    (void)prctl(PR_SET_NAME, "keyd-tokens");
    (void)mlock(worker->pin.data, worker->pin.length); /* memory locks are not inherited */
    for (; alive < count; alive++) workers[alive] = spawn(worker, sockets[alive]);
    while (alive > 0) {
        int status = 0;
        const pid_t ended = waitpid(-1, &status, 0);
        if (ended < 0 && errno != EINTR) break;
        for (size_t i = 0; i < count; i++) {
            if (ended <= 0 || workers[i] != ended) continue;
            if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) {
                alive--;
                continue;
            }
            send_status(status);
            wait_ms(started_ms + RESPAWN_MS - clock_monotonic_ms());
            started_ms = clock_monotonic_ms();
            workers[i] = spawn(worker, sockets[i]);
        }
    }
    _exit(EXIT_SUCCESS);
}
