#include "gateway/background/introspect.h"

#include <stdio.h>
#include <string.h>

#include "authz/introspection.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include "crypto/secret.h"
#include "gateway/background/issuer_way.h"
#include "gateway/pipeline/gateway.h"
#include "outgoing/call.h"

#define CALL_S   5
#define LOOK_MS  500 /* until it is seen that the thread must end */
#define FILE_MAX 16384

struct worker {
    struct introspect *introspect;
    size_t issuer;
    bool is_failed;       /* the log says so already */
    struct outgoing *own; /* by the issuer's own authorities; NULL: by those of all */
    struct thread thread;
};

struct introspect {
    struct gateway *gateway;
    struct introspection *introspection;
    struct outgoing *outgoing;
    atomic_bool gives_up;
    struct worker workers[INTROSPECTION_ISSUERS_MAX];
};

/* As in application/x-www-form-urlencoded. */
static struct result add_escaped(struct buffer *out, const char *text, struct error *err)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";

    for (const char *at = text; *at != '\0'; at++) {
        if (strchr(plain, *at) != NULL) TRY(buffer_add_u8(out, (uint8_t)*at, err));
        else TRY(buffer_format(out, err, "%%%02X", (unsigned)(unsigned char)*at));
    }
    return SUCCESS;
}

/* RFC 6749, 2.3.1. */
static struct result write_login(const struct introspection_client *client, struct buffer *login, struct error *err)
{
    struct buffer OWNED_BUFFER pair = BUFFER(2048);

    TRY(add_escaped(&pair, client->client, err));
    TRY(buffer_add_u8(&pair, ':', err));
    TRY(add_escaped(&pair, client->secret, err));
    TRY(buffer_add_text(login, "Basic ", err));
    const struct result result = text_base64(login, BASE64_STANDARD, buffer_bytes(&pair), err);
    secret_wipe(pair.data, pair.capacity);
    return result;
}

static struct result take(void *context, long status, struct bytes piece, struct error *err)
{
    (void)status;
    return buffer_add(context, piece.data, piece.length, err);
}

/* Anything but a complete 200 is a failure. */
static struct result judge(const struct outgoing_outcome *outcome, struct error *err)
{
    if (outcome->end == OUTGOING_FORBIDDEN)
        return failure(err, ERROR_UNAVAILABLE, "its name leads to no address that may be called: set issuer_networks");
    if (outcome->end != OUTGOING_ANSWERED) return failure(err, ERROR_UNAVAILABLE, "%.150s", outcome->reason);
    if (outcome->status == 401)
        return failure(err, ERROR_UNAVAILABLE, "it does not know the client of introspection_file, or its secret");
    return outcome->status == 200 ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "it answers %ld", outcome->status);
}

static struct result call(struct introspect *introspect, size_t issuer, struct bytes form, const char *login, struct buffer *body,
                          struct error *err)
{
    struct outgoing *own = introspect->workers[issuer].own;
    struct outgoing_outcome outcome;
    const struct outgoing_header headers[] = {{"Accept", "application/json"},
                                              {"Content-Type", "application/x-www-form-urlencoded"},
                                              {"Authorization", login},
                                              {"User-Agent", "sijild"}};
    const struct outgoing_request request = {.method = "POST",
                                             .url = introspection_client_at(introspect->introspection, issuer)->endpoint,
                                             .headers = headers,
                                             .header_count = sizeof headers / sizeof headers[0],
                                             .with_body = true,
                                             .body = form,
                                             .is_repeatable = true,
                                             .limits = {.connect_s = CALL_S,
                                                        .silence_s = CALL_S,
                                                        .slowest_rate = 1,
                                                        .whole_s = CALL_S,
                                                        .answer_bytes = INTROSPECTION_ANSWER_MAX},
                                             .gives_up = &introspect->gives_up,
                                             .take = take,
                                             .context = body};

    TRY(outgoing_call(own == NULL ? introspect->outgoing : own, &request, &outcome, err));
    return judge(&outcome, err);
}

static struct result exchange(struct introspect *introspect, const struct introspection_question *question, struct buffer *body,
                              struct error *err)
{
    const struct introspection_client *client = introspection_client_at(introspect->introspection, question->issuer);
    struct buffer OWNED_BUFFER form = BUFFER(3 * INTROSPECTION_TOKEN_MAX + 64), login = BUFFER(4096);

    TRY(buffer_add_text(&form, "token_type_hint=access_token&token=", err));
    TRY(add_escaped(&form, question->token, err));
    struct result result = write_login(client, &login, err);
    if (result.ok) result = call(introspect, question->issuer, buffer_bytes(&form), buffer_text(&login), body, err);
    secret_wipe(form.data, form.capacity);
    if (login.data != NULL) secret_wipe(login.data, login.capacity);
    return result;
}

/* *claims_out NULL: the token is not active. */
static struct result ask(struct introspect *introspect, const struct introspection_question *question, json_t **claims_out,
                         struct error *err)
{
    const struct introspection_client *client = introspection_client_at(introspect->introspection, question->issuer);
    struct buffer OWNED_BUFFER body = BUFFER(INTROSPECTION_ANSWER_MAX + 1);

    TRY(exchange(introspect, question, &body, err));
    return introspection_answer_read(buffer_bytes(&body), client->issuer, claims_out, err);
}

static void note(struct worker *worker, const struct error *why)
{
    const struct introspection_client *client = introspection_client_at(worker->introspect->introspection, worker->issuer);

    if (why != NULL && !worker->is_failed && !atomic_load(&worker->introspect->gives_up))
        log_line(LOG_WARNING, "an issuer does not say whether a token is valid", "issuer", client->issuer, "why", why->message,
                 NULL);
    worker->is_failed = why != NULL;
}

static void settle(struct worker *worker, struct introspection_question *question)
{
    OWNED_JSON claims = NULL;
    struct error err = {0};
    const int64_t asked_ms = clock_monotonic_ms(); /* a slow issuer may have looked at the token long before its answer is here */
    const bool is_answered = ask(worker->introspect, question, &claims, &err).ok;
    const enum introspection_state state = !is_answered     ? INTROSPECTION_FAILED
                                           : claims == NULL ? INTROSPECTION_INACTIVE
                                                            : INTROSPECTION_ACTIVE;
    const int64_t until_ms = is_answered ? asked_ms + INTROSPECTION_KEPT_MS : clock_monotonic_ms() + INTROSPECTION_FAILED_MS;

    note(worker, is_answered ? NULL : &err);
    introspection_settle(worker->introspect->introspection, question, state, claims, until_ms);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct introspection_question question;

    while (!thread_is_stopping(&worker->thread))
        if (introspection_take(worker->introspect->introspection, worker->issuer, LOOK_MS, &question)) settle(worker, &question);
    return NULL;
}

/* ---- its life ---- */

static struct result read_clients(struct introspect *introspect, struct introspection_client clients[INTROSPECTION_ISSUERS_MAX],
                                  struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(FILE_MAX);
    size_t count = 0;
    struct error why = {0};

    TRY(file_read_private(introspect->gateway->settings->introspection_file, &text, err));
    struct result result = introspection_clients_read(buffer_bytes(&text), clients, &count, &why);
    if (text.data != NULL) secret_wipe(text.data, text.capacity);
    if (!result.ok) return failure(err, why.kind, "introspection_file: %.200s", why.message);
    return introspection_new(clients, count, &introspect->introspection, err);
}

static struct result start_workers(struct introspect *introspect, struct error *err)
{
    struct introspection_client clients[INTROSPECTION_ISSUERS_MAX];

    const struct result read = read_clients(introspect, clients, err);
    secret_wipe(clients, sizeof clients);
    TRY(read);
    const struct settings *settings = introspect->gateway->settings;
    TRY(issuer_way_new(settings, &introspect->outgoing, err));
    for (size_t i = 0; i < introspection_count(introspect->introspection); i++) {
        struct worker *worker = &introspect->workers[i];
        worker->introspect = introspect;
        worker->issuer = i;
        TRY(issuer_way_own(settings, introspection_client_at(introspect->introspection, i)->issuer, &worker->own, err));
        TRY(thread_start(&worker->thread, worker_main, worker, "introspects tokens", err));
    }
    introspect->gateway->introspection = introspect->introspection;
    return SUCCESS;
}

struct result introspect_start(struct gateway *gateway, struct introspect **introspect_out, struct error *err)
{
    OWNED(introspect) *introspect = NULL;

    *introspect_out = NULL;
    if (gateway->settings->introspection_file[0] == '\0') return SUCCESS;
    introspect = memory_zeroed(1, sizeof *introspect);
    if (introspect == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for introspection");
    introspect->gateway = gateway;
    TRY(start_workers(introspect, err));
    *introspect_out = GIVE(introspect);
    return SUCCESS;
}

void introspect_free(struct introspect *introspect)
{
    if (introspect == NULL) return;
    atomic_store(&introspect->gives_up, true);
    for (size_t i = 0; i < INTROSPECTION_ISSUERS_MAX; i++) thread_stop(&introspect->workers[i].thread);
    introspect->gateway->introspection = NULL;
    introspection_free(introspect->introspection);
    for (size_t i = 0; i < INTROSPECTION_ISSUERS_MAX; i++) outgoing_free(introspect->workers[i].own);
    outgoing_free(introspect->outgoing);
    free(introspect);
}
