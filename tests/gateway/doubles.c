/*
 * Stand-ins for the log and the decider, so that the server can be tested without a database: decisions follow the first query
 * argument. A record is durable a moment later, on a separate thread, as with the real log.
 */
#include "tests/gateway/doubles.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "audit/decision_make.h"
#include "audit/log_verifier.h"
#include "audit/permit_priv.h"
#include "audit/sequencer.h"
#include "base/memory.h"
#include "base/work.h"
#include "crypto/keyd_client.h"
#include "policy/decider/decider.h"
#include "registry/maintenance.h"

_Atomic enum double_mode double_mode;
_Atomic int double_refused, double_recorded, double_outcomes, double_stale, double_revoked;

RESULT __wrap_keyd_identify(struct keyd_client *client, struct keyd_identity *identity_out, struct error *err);

struct result __wrap_keyd_identify(struct keyd_client *client, struct keyd_identity *identity_out, struct error *err)
{
    (void)client;
    (void)err;
    *identity_out = (struct keyd_identity){.log_size = 0};
    return SUCCESS;
}

RESULT __wrap_registry_regions_ready(struct registry *registry, struct error *err);

struct result __wrap_registry_regions_ready(struct registry *registry, struct error *err)
{
    (void)registry;
    (void)err;
    return SUCCESS;
}

void __wrap_registry_closed_regions(struct registry *registry, char *text, size_t size);

void __wrap_registry_closed_regions(struct registry *registry, char *text, size_t size)
{
    (void)registry;
    if (size > 0) text[0] = '\0';
}

RESULT __wrap_registry_write_metrics(struct registry *registry, struct buffer *text, struct error *err);

struct result __wrap_registry_write_metrics(struct registry *registry, struct buffer *text, struct error *err)
{
    (void)registry;
    (void)text;
    (void)err;
    return SUCCESS;
}

struct sequencer {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    struct record *first, *last;
    bool is_stopping;
    uint64_t sequence;
};

static void settle(struct sequencer *sequencer, struct record *record)
{
    const struct timespec moment = {.tv_nsec = 2000000};
    struct error err = {0};

    (void)nanosleep(&moment, NULL);
    record->status = RECORD_DONE;
    if (double_mode == DOUBLE_LOG_DOWN) record->status = RECORD_UNAVAILABLE;
    if (record->decision != NULL && atomic_load(&double_stale) > 0) {
        atomic_fetch_sub(&double_stale, 1);
        record->status = RECORD_STALE;
    }
    if (record->status != RECORD_DONE) return;
    if (record->refusal != NULL) {
        atomic_fetch_add(&double_refused, 1);
        return;
    }
    record->sequence = ++sequencer->sequence;
    atomic_fetch_add(record->under == NULL ? &double_recorded : &double_outcomes, 1);
    if (record->under != NULL) (void)fprintf(stderr, "outcome %d: %s\n", (int)record->outcome, record->note);
    else if (decision_verdict(record->decision) != VERDICT_ALLOW)
        (void)fprintf(stderr, "denied: %s\n", decision_pair(record->decision, 0)->resource.name);
    if (record->decision == NULL || decision_verdict(record->decision) != VERDICT_ALLOW) return;
    if (!permit_make(record->decision, &record->permit, &err).ok) abort();
    if (record->change == NULL || record->change->run(record->permit, record->change, NULL, &record->error).ok) return;
    record->status = RECORD_REFUSED;
    permit_free(record->permit);
    record->permit = NULL;
}

static struct record *next_record(struct sequencer *sequencer)
{
    pthread_mutex_lock(&sequencer->mutex);
    while (sequencer->first == NULL && !sequencer->is_stopping) pthread_cond_wait(&sequencer->changed, &sequencer->mutex);
    struct record *record = sequencer->first;
    if (record != NULL) sequencer->first = record->next;
    pthread_mutex_unlock(&sequencer->mutex);
    return record;
}

static void *sequencer_main(void *argument)
{
    struct sequencer *sequencer = argument;

    for (struct record *record; (record = next_record(sequencer)) != NULL;) {
        settle(sequencer, record);
        record->done(record);
    }
    return NULL;
}

struct result sequencer_start(const struct sequencer_options *options, struct sequencer **sequencer_out, struct error *err)
{
    struct sequencer *sequencer = memory_zeroed(1, sizeof *sequencer);

    (void)options;
    if (sequencer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    pthread_mutex_init(&sequencer->mutex, NULL);
    pthread_cond_init(&sequencer->changed, NULL);
    if (pthread_create(&sequencer->thread, NULL, sequencer_main, sequencer) != 0) abort();
    *sequencer_out = sequencer;
    return SUCCESS;
}

void sequencer_submit(struct sequencer *sequencer, struct record *record)
{
    pthread_mutex_lock(&sequencer->mutex);
    record->next = NULL;
    if (sequencer->first == NULL) sequencer->first = record;
    else sequencer->last->next = record;
    sequencer->last = record;
    pthread_cond_broadcast(&sequencer->changed);
    pthread_mutex_unlock(&sequencer->mutex);
}

struct waiting {
    struct record *record;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
};
static _Thread_local struct waiting *waiting_now;

static void waited(struct record *record)
{
    /* The double completes one record after the other, so the context can have the waiting thread. */
    struct waiting *waiting = (struct waiting *)(uintptr_t)record->context.claims;

    pthread_mutex_lock(&waiting->mutex);
    waiting->is_done = true;
    pthread_cond_signal(&waiting->changed);
    pthread_mutex_unlock(&waiting->mutex);
}

void sequencer_submit_and_wait(struct sequencer *sequencer, struct record *record)
{
    struct waiting waiting = {.record = record};

    pthread_mutex_init(&waiting.mutex, NULL);
    pthread_cond_init(&waiting.changed, NULL);
    waiting_now = &waiting;
    record->context.claims = (const char *)&waiting;
    record->done = waited;
    sequencer_submit(sequencer, record);
    pthread_mutex_lock(&waiting.mutex);
    while (!waiting.is_done) pthread_cond_wait(&waiting.changed, &waiting.mutex);
    pthread_mutex_unlock(&waiting.mutex);
    pthread_cond_destroy(&waiting.changed);
    pthread_mutex_destroy(&waiting.mutex);
    record->context.claims = NULL;
    record->done = NULL;
}

void record_done(struct record *record)
{
    decision_free(record->decision);
    permit_free(record->permit);
    record->decision = NULL;
    record->permit = NULL;
}

void sequencer_count_refused(struct sequencer *sequencer)
{
    (void)sequencer;
    atomic_fetch_add(&double_refused, 1);
}

bool sequencer_is_ready(const struct sequencer *sequencer, struct error *err)
{
    (void)sequencer;
    if (double_mode != DOUBLE_LOG_DOWN) return true;
    return failure(err, ERROR_UNAVAILABLE,
                   "the log can't be written: PostgreSQL, audit_append: relation \"audit_entry\" does not exist (42P01)")
        .ok;
}

void sequencer_set_forked(struct sequencer *sequencer, const struct error *why)
{
    (void)sequencer, (void)why;
}

struct result sequencer_await_signed(struct sequencer *sequencer, uint64_t sequence, struct error *err)
{
    (void)sequencer;
    (void)sequence;
    return failure(err, ERROR_UNAVAILABLE, "nothing is signed in this test");
}

struct result sequencer_checkpoint(const struct sequencer *sequencer, struct signed_checkpoint *checkpoint_out, struct error *err)
{
    (void)sequencer, (void)checkpoint_out;
    return failure(err, ERROR_UNAVAILABLE, "nothing is signed here");
}

/* There is no log to verify. */
struct result log_verifier_start(const struct log_verifier_options *options, struct log_verifier **verifier_out,
                                 struct error *err)
{
    (void)options, (void)err;
    *verifier_out = NULL;
    return SUCCESS;
}

void log_verifier_free(struct log_verifier *verifier)
{
    assert(verifier == NULL);
}

void sequencer_free(struct sequencer *sequencer)
{
    if (sequencer == NULL) return;
    pthread_mutex_lock(&sequencer->mutex);
    sequencer->is_stopping = true;
    pthread_cond_broadcast(&sequencer->changed);
    pthread_mutex_unlock(&sequencer->mutex);
    pthread_join(sequencer->thread, NULL);
    pthread_cond_destroy(&sequencer->changed);
    pthread_mutex_destroy(&sequencer->mutex);
    free(sequencer);
}

/* The decision follows the name of the resource. */
static enum verdict verdict_of(const struct decision_request *request)
{
    const char *name = request->pairs[0].resource.name;

    if (strcmp(name, "denied") == 0) return VERDICT_DENY;
    if (strcmp(name, "revocable") == 0 && double_revoked != 0) return VERDICT_DENY;
    if (strcmp(name, "hidden") == 0) return VERDICT_HIDE;
    return strcmp(name, "stranger") == 0 ? VERDICT_CHALLENGE : VERDICT_ALLOW;
}

struct result decider_decide(struct decider *decider, const struct decision_request *request, struct decision **decision_out,
                             struct error *err)
{
    struct decision_parts parts = {
        .verdict = verdict_of(request), .epoch = 1, .id = "sha256:test", .pair_count = request->pair_count};

    (void)decider;
    memcpy(parts.pairs, request->pairs, sizeof parts.pairs);
    if (parts.verdict != VERDICT_ALLOW) {
        parts.denial_count = 1;
        parts.denials[0] = (struct denial){.rule = "T-RULE", .policy = "test@1", .message = "not for you", .missing = "geo"};
    }
    return decision_make(&parts, decision_out, err);
}

bool decider_is_live(struct decider *decider, const struct principal *principal, int64_t now_ms)
{
    (void)decider;
    (void)principal;
    (void)now_ms;
    return double_revoked == 0;
}

struct result decider_await_newer(struct decider *decider, uint64_t epoch, struct error *err)
{
    (void)decider;
    (void)epoch;
    (void)err;
    return SUCCESS;
}

bool decider_places_authorities(const struct decider *decider)
{
    (void)decider;
    return true;
}

uint64_t decider_epoch(const struct decider *decider)
{
    (void)decider;
    return 1;
}

bool decider_is_ready(const struct decider *decider, struct error *err)
{
    (void)decider;
    (void)err;
    return true;
}

/* /token is linked in with the pipeline, but no route of the test server leads there. */
void decider_resolve(struct decider *decider, const char *name, struct resource *resource_out)
{
    (void)decider;
    *resource_out = (struct resource){0};
    (void)snprintf(resource_out->name, sizeof resource_out->name, "%s", name);
}

enum authz_verdict decider_rights(struct decider *decider, const struct principal *principal, const struct action_pair *pair,
                                  int64_t now_ms)
{
    (void)decider;
    (void)principal;
    (void)pair;
    (void)now_ms;
    return AUTHZ_INVISIBLE;
}

struct result decider_readable(struct decider *decider, const struct principal *principal, const char *after, int64_t now_ms,
                               struct name_ranges **ranges_out, struct error *err)
{
    (void)decider;
    (void)principal;
    (void)after;
    (void)now_ms;
    (void)ranges_out;
    return failure(err, ERROR_UNAVAILABLE, "nobody may list anything here");
}

void name_ranges_free(struct name_ranges *ranges)
{
    (void)ranges;
}

struct persons decider_persons(struct decider *decider, const struct principal *principal, const struct uuid *organisation)
{
    struct persons persons = {.count = 1};

    (void)decider;
    (void)organisation;
    principal_key(principal, persons.each[0].key);
    return persons;
}

struct persons decider_persons_of_key(struct decider *decider, const char *principal, const struct uuid *organisation)
{
    (void)decider;
    (void)principal;
    (void)organisation;
    return (struct persons){.has_unknown = true};
}

void decider_separated(struct decider *decider, const struct uuid *organisation, struct persons_separated *separated_out)
{
    (void)decider;
    (void)organisation;
    separated_out->count = 0;
}

struct token_demand decider_token_demand(struct decider *decider, const struct uuid *organisation, int64_t now_ms)
{
    (void)decider;
    (void)organisation;
    (void)now_ms;
    return (struct token_demand){.any = false};
}

unsigned decider_shortest_token(struct decider *decider, int64_t now_ms)
{
    (void)decider;
    (void)now_ms;
    return 0;
}

struct uuid decider_home(struct decider *decider, const struct principal *principal, int64_t now_ms)
{
    (void)decider;
    (void)now_ms;
    return principal->organisation;
}

bool decider_has_role(struct decider *decider, const struct principal *principal, int64_t now_ms)
{
    (void)decider;
    (void)principal;
    (void)now_ms;
    return true;
}

int64_t decider_previous_until(struct decider *decider, const struct principal *principal, int64_t now_ms)
{
    (void)decider;
    (void)principal;
    (void)now_ms;
    return 0;
}

int64_t decider_robot_expires(struct decider *decider, const struct principal *principal)
{
    (void)decider;
    (void)principal;
    return 0;
}

void decider_live_access(struct decider *decider, const struct principal *principal, const char *name, int64_t now_ms,
                         struct principal_access *access_out)
{
    (void)decider;
    (void)principal;
    (void)name;
    (void)now_ms;
    *access_out = (struct principal_access){0};
}

uint64_t decider_names_version(struct decider *decider)
{
    (void)decider;
    return 1;
}

/*
 * Replaces libc's function, also for libmicrohttpd. A pause here lets its threads meet at the moment when a listening socket is
 * removed from a set.
 */
__attribute__((visibility("default"))) int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    int is_listening = 0;
    socklen_t length = sizeof is_listening;

    if (operation == EPOLL_CTL_DEL && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &length) == 0 && is_listening)
        (void)usleep(3000);
    return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}
