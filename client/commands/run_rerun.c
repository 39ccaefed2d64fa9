/* `sijil run rerun` and `compare`: the same specification again, and whether the same outputs came of it. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/commands/run_priv.h"
#include "client/terminal.h"

/* The request and the order of the old run, as they were signed. */
struct old_run {
    struct run_envelope *request, *order;
    json_t *outputs;
};

static void old_run_done(struct old_run *old)
{
    run_envelope_free(old->request);
    run_envelope_free(old->order);
    json_decref(old->outputs);
}
#define OWNED_OLD_RUN __attribute__((cleanup(old_run_done))) struct old_run

static struct result has_succeeded(const struct run_address *address, const json_t *run, struct error *err)
{
    char state[CELL_MAX];

    cell_text(json_object_get(run, "state"), state);
    if (strcmp(state, "succeeded") == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "the run %.36s is %.32s: it has no outputs to compare with", address->run, state);
}

static struct result read_old(struct session *session, const struct run_address *address, struct old_run *old, bool compares,
                              struct error *err)
{
    OWNED_JSON run = NULL;

    TRY(run_read(session, address, &run, err));
    TRY(run_signed_request(run, address, &old->request, err));
    TRY(run_signed(run, RUN_ORDER, &old->order, err));
    if (old->order == NULL)
        return failure(err, ERROR_INVALID,
                       "the run has no order, so there is nothing to repeat: start it anew with its specification");
    if (strcmp(run_text(old->order, "request"), old->request->digest) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with the order of another request");
    if (!compares) return SUCCESS;
    TRY(has_succeeded(address, run, err));
    return run_signed_outputs(run, address, &old->outputs, err);
}

/* ---- comparing ---- */

static const json_t *output_named(const json_t *outputs, const char *name)
{
    for (size_t i = 0; i < json_array_size(outputs); i++)
        if (strcmp(json_text_of(json_array_get(outputs, i), "name"), name) == 0) return json_array_get(outputs, i);
    return NULL;
}

/* Both runs have the same specification, so they have the same names of outputs, or one of them is not the run that it was taken for. */
static struct result compare(const json_t *before, const json_t *after, json_t **rows_out, bool *equal_out, struct error *err)
{
    OWNED_JSON rows = json_array();
    bool equal = json_array_size(before) == json_array_size(after);

    for (size_t i = 0; i < json_array_size(before); i++) {
        const char *name = json_text_of(json_array_get(before, i), "name");
        const char *old_digest = json_text_of(json_array_get(before, i), "digest");
        const char *new_digest = json_text_of(output_named(after, name), "digest");
        const bool same = new_digest != NULL && strcmp(old_digest, new_digest) == 0;
        equal = equal && same;
        json_t *row =
            json_pack("{s:s, s:b, s:s, s:s*}", "name", name, "equal", (int)same, "before", old_digest, "after", new_digest);
        if (json_array_append_new(rows, row) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for the outputs");
    }
    *rows_out = GIVE(rows);
    *equal_out = equal;
    return SUCCESS;
}

static void print_rows(const json_t *rows)
{
    char name[CELL_MAX], before[CELL_MAX], after[CELL_MAX];

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const bool same = json_is_true(json_object_get(row, "equal"));
        cell_text(json_object_get(row, "name"), name);
        cell_text(json_object_get(row, "before"), before);
        cell_text(json_object_get(row, "after"), after);
        (void)printf("%s  %s  %s", name, same ? "equal" : "differs", before);
        (void)printf("%s%s\n", same ? "" : "  ", same ? "" : after);
    }
}

static struct result conclude(struct invocation *invocation, const struct run_address *old, const struct run_address *new,
                              const json_t *before, const json_t *after, struct error *err)
{
    OWNED_JSON rows = NULL;
    bool equal = false;

    TRY(compare(before, after, &rows, &equal, err));
    if (invocation->json) {
        OWNED_JSON answer =
            json_pack("{s:s, s:s, s:b, s:O}", "run", new->run, "rerun", old->run, "equal", (int)equal, "outputs", rows);
        if (answer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the outputs");
        TRY(api_print_json(answer, err));
    } else {
        print_rows(rows);
    }
    if (equal) return SUCCESS;
    invocation->ends_with = EXIT_DIFFERS;
    return failure(err, ERROR_INVALID, "the outputs of %.36s and %.36s differ", old->run, new->run);
}

/* ---- the commands ---- */

static struct result wait_and_compare(struct invocation *invocation, struct session *session, const struct run_address *old,
                                      const struct run_address *new, const json_t *before, struct error *err)
{
    OWNED_JSON run = NULL;
    OWNED_JSON after = NULL;

    TRY(run_watch(invocation, session, new, &run, err));
    TRY(run_signed_outputs(run, new, &after, err));
    TRY(run_verdict(invocation, new, run, err));
    return conclude(invocation, old, new, before, after, err);
}

static struct result rerun(struct invocation *invocation, struct session *session, const struct run_address *address,
                           const struct ecdsa_key *key, int64_t hours, struct error *err)
{
    const bool compares = invocation_option(invocation, 'c') != NULL;
    OWNED_OLD_RUN old = {.request = NULL};
    OWNED_JSON run = NULL;

    TRY(read_old(session, address, &old, compares, err));
    if (!invocation->json) TRY(run_show_request(old.request, stderr, err));
    const struct run_wish wish = {address->project, run_member(old.request, "spec"), old.order};
    TRY(run_ask(session, &wish, hours, key, &run, err));
    if (!compares) return run_started(invocation, session, run, err);
    const struct run_address new = run_new_address(invocation, run);
    if (!invocation->json)
        (void)fprintf(stderr, "run %s; it goes on also when this ends: sijil run compare %s %s %s %s\n", new.run, address->host,
                      address->project, address->run, new.run);
    if (invocation_option(invocation, 'f') != NULL) TRY(run_follow_log(invocation, session, &new, err));
    return wait_and_compare(invocation, session, address, &new, old.outputs, err);
}

struct result command_run_rerun(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    struct run_address address;
    int64_t hours = 0;

    TRY(run_check_line(invocation, err));
    TRY(run_address_of(invocation, &address, err));
    TRY(run_life_option(invocation, &hours, err));
    TRY(run_signer(invocation, address.host, &key, err));
    TRY(command_session(invocation, address.host, &session, err));
    return rerun(invocation, session, &address, key, hours, err);
}

struct result command_run_compare(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON run = NULL;
    OWNED_JSON before = NULL;
    struct run_address address, other;
    struct uuid id;

    TRY(run_address_of(invocation, &address, err));
    if (!uuid_parse(bytes_of_text(invocation->operands[3]), &id))
        return line_check(invocation, failure(err, ERROR_INVALID, "'%.60s' is not the id of a run", invocation->operands[3]));
    other = (struct run_address){address.host, address.project, invocation->operands[3]};
    TRY(command_session(invocation, address.host, &session, err));
    TRY(run_read(session, &address, &run, err));
    TRY(has_succeeded(&address, run, err));
    TRY(run_signed_outputs(run, &address, &before, err));
    return wait_and_compare(invocation, session, &address, &other, before, err);
}
