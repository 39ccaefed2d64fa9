/* keyd's side of a token: it sends requests to the worker processes. */
#include "keyd/hsm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "crypto/secret.h"
#include "keyd/hsm_priv.h"

enum {
    LANES = 4, /* operations at a time */
    PIN_MAX = 256,
    BAD_MS = 1000,  /* a lane whose worker did not answer is not used for this time */
    GRACE_MS = 200, /* added to the worker's own time limit */
};

struct lane {
    int socket;
    bool busy;
    int64_t bad_until_ms;
};

struct hsm {
    pid_t supervisor;
    unsigned timeout_ms;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    uint64_t last_number;
    struct lane lanes[LANES];
};

/* ---- Starting ---- */

static struct result read_pin(const char *path, struct secret **pin_out, struct error *err)
{
    OWNED_FD file = -1;
    OWNED(secret) *pin = NULL;
    struct stat about;

    TRY(file_open(path, O_RDONLY, 0, &file, err));
    TRY(file_status(file, &about, err));
    if ((about.st_mode & 077) != 0) return failure(err, ERROR_DENIED, "others may read the token's PIN: chmod 600 %.180s", path);
    TRY(secret_new(PIN_MAX, &pin, err));
    const ssize_t length = read(file, pin->bytes, PIN_MAX);
    if (length < 0) return failure(err, ERROR_UNAVAILABLE, "the token's PIN can't be read: %s", strerror(errno));
    const uint8_t *end = memchr(pin->bytes, '\n', (size_t)length);
    pin->length = end == NULL ? (size_t)length : (size_t)(end - pin->bytes);
    if (pin->length == 0 || (end == NULL && length == PIN_MAX))
        return failure(err, ERROR_INVALID, "the token's PIN must have 1 to %d letters", PIN_MAX - 1);
    *pin_out = GIVE(pin);
    return SUCCESS;
}

/* A user that can write the module can run code in keyd's worker. */
static struct result check_module(const char *path, struct error *err)
{
    struct stat about;

    if (stat(path, &about) != 0) return failure(err, ERROR_NOT_FOUND, "the PKCS#11 module can't be loaded: %s", strerror(errno));
    if ((about.st_mode & 022) == 0 && (about.st_uid == 0 || about.st_uid == geteuid())) return SUCCESS;
    return failure(err, ERROR_DENIED, "others may write the PKCS#11 module: chown root and chmod go-w %.180s", path);
}

static void become_supervisor(const struct hsm_options *options, struct bytes pin, const int *sockets)
{
    /* shared by all workers: once the PIN is refused, no worker tries it again */
    volatile int *refused = mmap(NULL, sizeof *refused, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct hsm_worker worker = {.options = *options, .pin = pin, .pin_refused = refused};

    if (refused == MAP_FAILED || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) _exit(EXIT_FAILURE);
    hsm_close_others(sockets, LANES);
    hsm_supervise(&worker, sockets, LANES);
}

static struct result start(struct hsm *hsm, const struct hsm_options *options, struct bytes pin, struct error *err)
{
    int theirs[LANES];
    size_t count = 0;
    struct result result = SUCCESS;

    for (; count < LANES && result.ok; count++) {
        int ends[2] = {-1, -1};
        if (fault_is_due(FAULT_SOCKET) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
            result = failure(err, ERROR_UNAVAILABLE, "no socket for the token's workers: %s", strerror(errno));
        hsm->lanes[count].socket = ends[0];
        theirs[count] = ends[1];
    }
    if (result.ok) {
        const pid_t parent = getpid();
        hsm->supervisor = fault_is_due(FAULT_FILE) ? -1 : fork();
        if (hsm->supervisor == 0 && getppid() == parent) become_supervisor(options, pin, theirs);
        if (hsm->supervisor == 0) _exit(EXIT_FAILURE);
        if (hsm->supervisor < 0) result = failure(err, ERROR_UNAVAILABLE, "no process for the token: %s", strerror(errno));
    }
    for (size_t i = 0; i < count; i++)
        if (theirs[i] >= 0) (void)close(theirs[i]);
    return result;
}

struct result hsm_start(const struct hsm_options *options, struct hsm **hsm_out, struct error *err)
{
    OWNED(hsm) *hsm = memory_zeroed(1, sizeof *hsm);
    OWNED(secret) *pin = NULL;

    if (hsm == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a token");
    for (size_t i = 0; i < LANES; i++) hsm->lanes[i].socket = -1;
    hsm->timeout_ms = options->timeout_ms;
    (void)pthread_mutex_init(&hsm->lock, NULL);
    (void)pthread_cond_init(&hsm->freed, NULL);
    TRY(check_module(options->module, err));
    TRY(read_pin(options->pin_file, &pin, err));
    TRY(start(hsm, options, secret_bytes(pin), err));
    *hsm_out = GIVE(hsm);
    return SUCCESS;
}

void hsm_free(struct hsm *hsm)
{
    if (hsm == NULL) return;
    for (size_t i = 0; i < LANES; i++)
        if (hsm->lanes[i].socket >= 0) (void)close(hsm->lanes[i].socket);
    if (hsm->supervisor > 0 && waitpid(hsm->supervisor, NULL, WNOHANG) == 0) {
        (void)kill(hsm->supervisor, SIGKILL); /* the workers end with the supervisor */
        (void)waitpid(hsm->supervisor, NULL, 0);
    }
    (void)pthread_mutex_destroy(&hsm->lock);
    (void)pthread_cond_destroy(&hsm->freed);
    free(hsm);
}

/* ---- Asking ---- */

/* NULL when all lanes are busy; *any_good_out says whether a working lane will become free. */
static struct lane *find_lane(struct hsm *hsm, bool *any_good_out)
{
    const int64_t now_ms = clock_monotonic_ms();
    bool any_good = false;

    for (size_t i = 0; i < LANES; i++) {
        struct lane *lane = &hsm->lanes[i];
        if (lane->bad_until_ms > now_ms) continue;
        any_good = true;
        if (!lane->busy) return lane;
    }
    *any_good_out = any_good;
    return NULL;
}

/* If no worker answers, the call fails at once: keyd's threads have other requests to serve. */
static struct result take_lane(struct hsm *hsm, int64_t deadline_ms, struct lane **lane_out, uint64_t *number_out,
                               struct error *err)
{
    const struct timespec until = {.tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000};
    struct lane *lane;
    bool any_good = true;

    (void)pthread_mutex_lock(&hsm->lock);
    while ((lane = find_lane(hsm, &any_good)) == NULL && any_good)
        if (pthread_cond_clockwait(&hsm->freed, &hsm->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT) break;
    if (lane != NULL) {
        lane->busy = true;
        *number_out = ++hsm->last_number;
    }
    (void)pthread_mutex_unlock(&hsm->lock);
    if (lane == NULL) return failure(err, ERROR_UNAVAILABLE, "the token does not answer, or is too busy");
    *lane_out = lane;
    return SUCCESS;
}

static void give_lane_back(struct hsm *hsm, struct lane *lane, bool is_good)
{
    (void)pthread_mutex_lock(&hsm->lock);
    lane->busy = false;
    lane->bad_until_ms = is_good ? 0 : clock_monotonic_ms() + BAD_MS;
    (void)pthread_cond_broadcast(&hsm->freed);
    (void)pthread_mutex_unlock(&hsm->lock);
}

/* Drops answers to requests that were given up earlier. */
static struct result receive(int socket, uint64_t number, int64_t deadline_ms, uint8_t reply[HSM_REPLY_MAX], size_t *length_out,
                             struct error *err)
{
    for (;;) {
        struct pollfd waiting = {.fd = socket, .events = POLLIN};
        const int64_t left_ms = deadline_ms - clock_monotonic_ms();
        if (left_ms <= 0) return failure(err, ERROR_UNAVAILABLE, "the token does not answer in time");
        if (poll(&waiting, 1, (int)left_ms) <= 0) continue;
        const ssize_t got = recv(socket, reply, HSM_REPLY_MAX, MSG_DONTWAIT);
        if (got == 0) return failure(err, ERROR_UNAVAILABLE, "the processes of the token have ended");
        if (got < HSM_REPLY_HEADER || load_u64(reply) != number) continue;
        *length_out = (size_t)got - HSM_REPLY_HEADER;
        return SUCCESS;
    }
}

static struct result check_reply(const uint8_t reply[HSM_REPLY_MAX], size_t length, struct bytes wanted, uint8_t *out,
                                 struct error *err)
{
    const uint8_t kind = reply[8];

    if (kind > ERROR_NONE && kind <= ERROR_NO_MEMORY)
        return failure(err, (enum error_kind)kind, "%.*s", (int)length, (const char *)reply + HSM_REPLY_HEADER);
    if (kind != ERROR_NONE || length != wanted.length)
        return failure(err, ERROR_UNAVAILABLE, "a worker of the token gave a malformed answer");
    if (length > 0) memcpy(out, reply + HSM_REPLY_HEADER, length);
    return SUCCESS;
}

struct ask {
    enum hsm_operation operation;
    struct pkcs11_box box;
    struct bytes data;
    size_t answer_length;
};

static size_t write_request(const struct ask *ask, uint64_t number, uint8_t message[HSM_MESSAGE_MAX])
{
    uint8_t *at = message + HSM_HEADER_SIZE;

    store_u64(message, number);
    message[8] = (uint8_t)ask->operation;
    memcpy(message + 9, ask->box.id, PKCS11_ID_SIZE);
    message[HSM_HEADER_SIZE - 2] = (uint8_t)(ask->box.associated.length >> 8);
    message[HSM_HEADER_SIZE - 1] = (uint8_t)ask->box.associated.length;
    if (ask->box.associated.length > 0) memcpy(at, ask->box.associated.data, ask->box.associated.length);
    at += ask->box.associated.length;
    if (ask->data.length > 0) memcpy(at, ask->data.data, ask->data.length);
    return HSM_HEADER_SIZE + ask->box.associated.length + ask->data.length;
}

static struct result exchange(const struct ask *ask, struct lane *lane, uint64_t number, int64_t deadline_ms, uint8_t *out,
                              struct error *err)
{
    uint8_t message[HSM_MESSAGE_MAX], reply[HSM_REPLY_MAX];
    size_t length = 0;

    const size_t size = write_request(ask, number, message);
    const ssize_t sent = send(lane->socket, message, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    secret_wipe(message, sizeof message);
    if (sent != (ssize_t)size) return failure(err, ERROR_UNAVAILABLE, "the processes of the token do not listen");
    struct result result = receive(lane->socket, number, deadline_ms, reply, &length, err);
    if (result.ok) result = check_reply(reply, length, (struct bytes){NULL, ask->answer_length}, out, err);
    secret_wipe(reply, sizeof reply);
    return result;
}

static struct result call(struct hsm *hsm, const struct ask *ask, uint8_t *out, struct error *err)
{
    const int64_t deadline_ms = clock_monotonic_ms() + hsm->timeout_ms + GRACE_MS;
    struct lane *lane = NULL;
    uint64_t number = 0;

    if (ask->box.associated.length > HSM_ASSOCIATED_MAX || ask->data.length > HSM_DATA_MAX)
        return failure(err, ERROR_INVALID, "too much for one operation of a token");
    TRY(take_lane(hsm, deadline_ms, &lane, &number, err));
    const struct result result = exchange(ask, lane, number, deadline_ms, out, err);
    const bool is_silent = !result.ok && err->kind == ERROR_UNAVAILABLE && clock_monotonic_ms() >= deadline_ms;
    give_lane_back(hsm, lane, !is_silent);
    return result;
}

static const uint8_t no_id[PKCS11_ID_SIZE];

struct result hsm_check(struct hsm *hsm, struct error *err)
{
    const struct ask ask = {.operation = HSM_CHECK, .box = {.id = no_id}};

    return call(hsm, &ask, NULL, err);
}

struct result hsm_make_key(struct hsm *hsm, const uint8_t id[PKCS11_ID_SIZE], uint32_t version, struct error *err)
{
    uint8_t number[4];
    const struct ask ask = {.operation = HSM_MAKE, .box = {.id = id}, .data = {number, sizeof number}};

    store_u32(number, version);
    return call(hsm, &ask, NULL, err);
}

struct result hsm_destroy_key(struct hsm *hsm, const uint8_t id[PKCS11_ID_SIZE], struct error *err)
{
    const struct ask ask = {.operation = HSM_DESTROY, .box = {.id = id}};

    return call(hsm, &ask, NULL, err);
}

struct result hsm_seal(struct hsm *hsm, const struct pkcs11_box *box, struct bytes plain, uint8_t *sealed_out, struct error *err)
{
    const struct ask ask = {.operation = HSM_SEAL, .box = *box, .data = plain, .answer_length = plain.length + PKCS11_OVERHEAD};

    return call(hsm, &ask, sealed_out, err);
}

struct result hsm_unseal(struct hsm *hsm, const struct pkcs11_box *box, struct bytes sealed, uint8_t *plain_out,
                         struct error *err)
{
    const struct ask ask = {
        .operation = HSM_UNSEAL, .box = *box, .data = sealed, .answer_length = sealed.length - PKCS11_OVERHEAD};

    if (sealed.length <= PKCS11_OVERHEAD) return failure(err, ERROR_CORRUPT, "a wrapped key of the wrong length");
    return call(hsm, &ask, plain_out, err);
}
