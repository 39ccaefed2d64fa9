/* `sijil admin issuer add|show|check`: issuers whose keys the registry fetches, and what it saw. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/issuer_priv.h"
#include "client/terminal.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WAIT_MS      40000 /* three calls of 5 s, a queue before them, and 5 s from one check to the next */
#define LOOK_MS      300

static struct result print_report(const struct invocation *invocation, const json_t *state, struct error *err)
{
    static const struct column calls[] = {{"ASKED", "url"}, {"STATUS", "status"}, {"PROBLEM", "problem"}};
    static const struct column keys[] = {
        {"KEY", "kid"}, {"KIND", "kty"}, {"ALGORITHM", "alg"}, {"COUNTS", "used"}, {"WHY NOT", "why"}};
    const json_t *report = json_object_get(state, "report");

    if (report == NULL) return SUCCESS;
    (void)printf("\n");
    TRY(api_rows(invocation, report, "calls", calls, COUNT(calls), err));
    if (json_object_get(report, "keys") == NULL) return SUCCESS;
    (void)printf("\n");
    return api_rows(invocation, report, "keys", keys, COUNT(keys), err);
}

static struct result print_state(const struct invocation *invocation, const json_t *state, struct error *err)
{
    OWNED_JSON words = json_array();
    OWNED_JSON shown = json_deep_copy(state);
    const json_t *key;
    size_t i;

    if (invocation->json) return api_print(invocation, state, err);
    json_array_foreach (json_object_get(state, "keys"), i, key) (void)json_array_append(words, json_object_get(key, "kid"));
    if (shown == NULL || words == NULL || json_object_set(shown, "keys", words) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for an issuer");
    (void)json_object_del(shown, "report");
    TRY(api_print(invocation, shown, err));
    return print_report(invocation, state, err);
}

/* Until the attempt has ended that was asked for. */
static struct result wait(struct session *session, const char *path, json_t **state_out, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + WAIT_MS;

    for (;;) {
        OWNED_JSON state = NULL;
        TRY(api_call_in(session, "GET", path, NULL, &state, err));
        if (json_object_get(state, "ended") != NULL) {
            *state_out = GIVE(state);
            return SUCCESS;
        }
        if (clock_monotonic_ms() > until_ms)
            return failure(err, ERROR_UNAVAILABLE,
                           "the registry has not asked the issuer in %d seconds: see sijil admin issuer show", WAIT_MS / 1000);
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    }
}

static struct result wait_and_print(const struct invocation *invocation, struct session *session, const char *path,
                                    struct error *err)
{
    OWNED_JSON state = NULL;

    TRY(wait(session, path, &state, err));
    TRY(print_state(invocation, state, err));
    const char *problem = json_text_of(state, "problem");
    char shown[CELL_MAX];
    (void)snprintf(shown, sizeof shown, "%s", problem == NULL ? "" : problem);
    terminal_sanitize(shown);
    return problem == NULL ? SUCCESS : failure(err, ERROR_CONFLICT, "the issuer does not answer as it must: %.200s", shown);
}

static struct result make_body(const struct invocation *invocation, json_t **body_out, struct error *err)
{
    const char *keys_url = invocation_option(invocation, 'k');
    OWNED_JSON algorithms = NULL;

    TRY(issuer_algorithms(invocation, (const char *const[]){"RS256", "ES256", NULL}, &algorithms, err));
    OWNED_JSON body = json_pack("{s:s,s:O,s:s*}", "url", invocation->operands[1], "algorithms", algorithms, "keys_url", keys_url);
    if (body == NULL) return failure(err, ERROR_INVALID, "a URL that is not UTF-8, or no memory");
    TRY(issuer_set_options(invocation, body, err));
    *body_out = GIVE(body);
    return SUCCESS;
}

struct result command_issuer_add(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON body = NULL;
    OWNED_JSON answer = NULL;

    TRY(line_check(invocation, make_body(invocation, &body, err)));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(api_call_in(session, "POST", "/issuers", body, &answer, err));
    const char *id = json_text_of(answer, "id");
    if (id == NULL) return failure(err, ERROR_CORRUPT, "the registry's answer has no id");
    TRY(issuer_path(session, id, &path, err));
    return wait_and_print(invocation, session, buffer_text(&path), err);
}

struct result command_issuer_show(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON state = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(issuer_path(session, invocation->operands[1], &path, err));
    TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &state, err));
    return print_state(invocation, state, err);
}

struct result command_issuer_check(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024), check = BUFFER(1024);

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(issuer_path(session, invocation->operands[1], &path, err));
    TRY(buffer_format(&check, err, "%s/check", buffer_text(&path)));
    TRY(api_call_in(session, "POST", buffer_text(&check), NULL, NULL, err));
    return wait_and_print(invocation, session, buffer_text(&path), err);
}
