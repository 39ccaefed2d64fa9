/* A token of a run names one lease, and permits only what the order allows in one request. */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/decision_make.h"
#include "audit/permit_priv.h"
#include "authz/lease_name.h"
#include "authz/run_token.h"

#define NOW_MS INT64_C(1795000000000)
#define KEY    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO-_"
#define RUN    "run:01020304-0506-4708-890a-0b0c0d0e0f10"
#define DIGEST "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER  "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define INPUT  "acme/models/digits"
#define OUTPUT "acme/models/trained"

/* ---- what a token says ---- */

static const struct said {
    const char *name, *subject, *source, *confirmation;
    bool is_read;
    int64_t attempt, node;
} said[] = {
    {"the token of a lease", RUN, "lease:3:255:" KEY, "x", true, 3, 255},
    {"without a certificate", RUN, "lease:3:0:" KEY, NULL, false, 0, 0},
    {"no run", "run:acme", "lease:3:0:" KEY, "x", false, 0, 0},
    {"a robot's source", RUN, "robot:01020304-0506-4708-890a-0b0c0d0e0f10", "x", false, 0, 0},
    {"an attempt with a sign", RUN, "lease:+3:0:" KEY, "x", false, 0, 0},
    {"an attempt with a zero before it", RUN, "lease:03:0:" KEY, "x", false, 0, 0},
    {"no attempt", RUN, "lease::0:" KEY, "x", false, 0, 0},
    {"a node beyond all", RUN, "lease:3:256:" KEY, "x", false, 0, 0},
    {"a key that is too short", RUN, "lease:3:0:abc", "x", false, 0, 0},
    {"a key that is too long", RUN, "lease:3:0:" KEY "x", "x", false, 0, 0},
    {"nothing", RUN, "", "x", false, 0, 0},
};

static void reads(void **state)
{
    const struct said *row = *state;
    const struct claims claims = {.subject = row->subject, .confirmation = row->confirmation};
    struct principal principal = {.access_count = 1, .is_limited = true};
    struct run_token token;
    struct error err = {0};

    (void)snprintf(principal.source, sizeof principal.source, "%s", row->source);
    assert_int_equal(run_token_read(&claims, &principal, &err).ok, row->is_read);
    if (!row->is_read) {
        assert_int_equal(err.kind, ERROR_DENIED);
        return;
    }
    assert_int_equal(principal.kind, PRINCIPAL_RUN);
    assert_int_equal(principal.access_count, 0); /* the token itself gives nothing */
    assert_true(run_token_of(&principal, &token));
    assert_int_equal(token.attempt, row->attempt);
    assert_int_equal(token.node, row->node);
    assert_string_equal(token.key, KEY);
    char key[PRINCIPAL_KEY_SIZE];
    principal_key(&principal, key);
    assert_string_equal(key, RUN);
}

/* ---- what it permits ---- */

static const struct row {
    const char *name, *grant; /* the repository of this request, by the order; NULL: none */
    bool pull, push;
    const char *content;
    enum action action;
    const char *where, *detail;
    int64_t lives_ms;
    enum authz_verdict verdict;
} rows[] = {
    {"a ping", NULL, false, false, "", ACTION_PING, "", "", 1, AUTHZ_ALLOWED},
    {"the list of repositories", NULL, false, false, "", ACTION_CATALOG_LIST, "", "", 1, AUTHZ_INVISIBLE},
    {"what it may do", NULL, false, false, "", ACTION_CREDENTIAL_READ, "", "", 1, AUTHZ_INVISIBLE},
    {"another token", NULL, false, false, "", ACTION_TOKEN_MINT, "", "", 1, AUTHZ_INVISIBLE},
    {"content of the order", INPUT, true, false, DIGEST, ACTION_RUN_FETCH, INPUT, DIGEST, 1, AUTHZ_ALLOWED},
    {"its place", INPUT, true, false, DIGEST, ACTION_RUN_USE, INPUT, DIGEST, 1, AUTHZ_ALLOWED},
    {"after the lease", INPUT, true, false, DIGEST, ACTION_RUN_FETCH, INPUT, DIGEST, 0, AUTHZ_NOT_LIVE},
    {"other content", INPUT, true, false, DIGEST, ACTION_RUN_FETCH, INPUT, OTHER, 1, AUTHZ_NOT_ALLOWED},
    {"content of no manifest", INPUT, true, false, "", ACTION_RUN_FETCH, INPUT, DIGEST, 1, AUTHZ_NOT_ALLOWED},
    {"a tag", INPUT, true, false, "", ACTION_RUN_FETCH, INPUT, "latest", 1, AUTHZ_NOT_ALLOWED},
    {"nothing named", INPUT, true, false, "", ACTION_RUN_FETCH, INPUT, "", 1, AUTHZ_NOT_ALLOWED},
    {"content of another repository", INPUT, true, false, DIGEST, ACTION_RUN_FETCH, OUTPUT, DIGEST, 1, AUTHZ_INVISIBLE},
    {"content of an output", OUTPUT, false, true, DIGEST, ACTION_RUN_FETCH, OUTPUT, DIGEST, 1, AUTHZ_NOT_ALLOWED},
    {"a read as people have it", INPUT, true, true, DIGEST, ACTION_BLOB_READ, INPUT, DIGEST, 1, AUTHZ_NOT_ALLOWED},
    {"tags", INPUT, true, true, DIGEST, ACTION_TAG_LIST, INPUT, "", 1, AUTHZ_NOT_ALLOWED},
    {"referrers", INPUT, true, true, DIGEST, ACTION_REFERRER_LIST, INPUT, DIGEST, 1, AUTHZ_NOT_ALLOWED},
    {"a blob for an output", OUTPUT, false, true, "", ACTION_UPLOAD_BEGIN, OUTPUT, "", 1, AUTHZ_ALLOWED},
    {"its bytes", OUTPUT, false, true, "", ACTION_UPLOAD_WRITE, OUTPUT, "", 1, AUTHZ_ALLOWED},
    {"its end", OUTPUT, false, true, "", ACTION_UPLOAD_COMMIT, OUTPUT, "", 1, AUTHZ_ALLOWED},
    {"a blob for an input", INPUT, true, false, "", ACTION_UPLOAD_BEGIN, INPUT, "", 1, AUTHZ_NOT_ALLOWED},
    {"a blob of another repository", OUTPUT, true, true, "", ACTION_BLOB_MOUNT, OUTPUT, DIGEST, 1, AUTHZ_NOT_ALLOWED},
    {"a manifest", OUTPUT, true, true, "", ACTION_MANIFEST_PUSH, OUTPUT, DIGEST, 1, AUTHZ_NOT_ALLOWED},
    {"a deletion", OUTPUT, true, true, DIGEST, ACTION_BLOB_DELETE, OUTPUT, DIGEST, 1, AUTHZ_NOT_ALLOWED},
    {"the end of other uploads", OUTPUT, true, true, "", ACTION_UPLOAD_END, OUTPUT, "", 1, AUTHZ_NOT_ALLOWED},
    {"its own request", OUTPUT, true, true, "", ACTION_RUN_REQUEST, OUTPUT, "", 1, AUTHZ_NOT_ALLOWED},
};

static void decides(void **state)
{
    const struct row *row = *state;
    const struct authz_parts parts = {0};
    struct principal principal = {
        .kind = PRINCIPAL_RUN, .expires_ms = NOW_MS + row->lives_ms, .access_count = row->grant != NULL};
    struct resource resource = {.kind = row->where[0] == '\0' ? RESOURCE_SYSTEM : RESOURCE_REPOSITORY};
    OWNED(authz_snapshot) *snapshot = NULL;
    struct error err = {0};

    if (row->grant != NULL) (void)snprintf(principal.access[0].name, sizeof principal.access[0].name, "%s", row->grant);
    principal.access[0].pull = row->pull;
    principal.access[0].push = row->push;
    (void)snprintf(principal.content, sizeof principal.content, "%s", row->content);
    (void)snprintf(resource.name, sizeof resource.name, "%s", row->where);
    (void)snprintf(resource.detail, sizeof resource.detail, "%s", row->detail);
    assert_true(authz_snapshot_build(&parts, &snapshot, &err).ok);
    const struct authz_answer answer = authz_snapshot_authorize(snapshot, &principal, row->action, &resource, NOW_MS);
    assert_int_equal(answer.verdict, row->verdict);
    assert_true(row->verdict == AUTHZ_ALLOWED || (answer.rule != NULL && answer.message != NULL));
}

/* ---- who gets a token ---- */

static const struct uuid run = {{1, 2, 3}}, other_run = {{1, 2, 4}};

static const struct permitted {
    const char *name;
    enum action action;
    const struct uuid *run;
    int64_t attempt, node;
    bool fits;
} permitted[] = {
    {"the lease of the permit", ACTION_RUN_TOKEN, &run, 3, 1, true},
    {"another run", ACTION_RUN_TOKEN, &other_run, 3, 1, false},
    {"another attempt", ACTION_RUN_TOKEN, &run, 2, 1, false},
    {"another node", ACTION_RUN_TOKEN, &run, 3, 2, false},
    {"a permit for something else", ACTION_RUN_HEARTBEAT, &run, 3, 1, false},
};

static struct permit *permit_of(const struct permitted *row)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .pair_count = 1};
    OWNED(decision) *decision = NULL;
    struct permit *permit = NULL;
    struct error err = {0};

    parts.pairs[0] = (struct action_pair){.action = row->action, .resource = {.kind = RESOURCE_PROJECT, .name = "acme/models"}};
    lease_name(&run, 3, 1, parts.pairs[0].resource.detail);
    assert_true(decision_make(&parts, &decision, &err).ok);
    assert_true(permit_make(decision, &permit, &err).ok);
    return permit;
}

/* The lease of the request has ended, so nothing is asked of sijil-keyd; a permit for another lease aborts before. */
static void only_the_lease_of_the_permit_gets_one(void **state)
{
    const struct permitted *row = *state;
    const struct run_token token = {.run = *row->run, .attempt = row->attempt, .node = row->node, .key = KEY};
    const struct run_token_request wanted = {.token = &token, .ends_ms = 0, .now_ms = NOW_MS};
    OWNED(permit) *permit = permit_of(row);
    int status = -1;
    const pid_t child = fork();

    if (child == 0) {
        struct keyd_client *nobody = (struct keyd_client *)(void *)&status;
        struct buffer OWNED_BUFFER answer = BUFFER(100);
        struct error err = {0};
        (void)fclose(stderr);
        _exit(run_token_mint(permit, nobody, &wanted, &answer, &err).ok || err.kind != ERROR_DENIED);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WIFEXITED(status) && WEXITSTATUS(status) == 0, row->fits);
    if (!row->fits) assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    return RUN_TABLE(permitted, only_the_lease_of_the_permit_gets_one) + RUN_TABLE(said, reads) + RUN_TABLE(rows, decides);
}
