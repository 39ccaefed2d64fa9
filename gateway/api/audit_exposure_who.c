/* Whose exposure is asked for: a name, a run, a token or a certificate; and words of its events. */
#include <stdlib.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/uuid.h"
#include "gateway/api/audit_exposure_priv.h"

#define LOOKS_MAX    10 /* of a search for one event: each takes a second at most */
#define THUMBPRINT   43 /* characters of an x5t#S256 */
#define CERTIFICATE  "x5t#S256:"
#define BASE64_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

/* ---- words of an event ---- */

/* The next word of the detail behind "#"; false at the end. */
bool exposure_next_word(struct bytes *left, char *word, size_t size)
{
    while (left->length > 0) {
        const struct bytes part = text_cut(left, ' ');
        if (part.length == 0 || part.length >= size) continue;
        memcpy(word, part.data, part.length);
        word[part.length] = '\0';
        return true;
    }
    return false;
}

struct bytes exposure_detail_of(const char *resource)
{
    const char *hash = resource == NULL ? NULL : strchr(resource, '#');

    return bytes_of_text(hash == NULL ? "" : hash + 1);
}

bool exposure_has_failed(const char *outcome)
{
    return strcmp(outcome, "denied") == 0 || strcmp(outcome, "failed") == 0;
}

const char *exposure_kind_of(const json_t *entry)
{
    const char *outcome = json_text_of(entry, "out"), *action = json_text_of(entry, "act");
    int64_t class = 0;

    if (outcome == NULL || action == NULL || !json_integer_of(entry, "cls", &class)) return "unreadable";
    if (exposure_has_failed(outcome)) return outcome;
    if (strcmp(action, "token.mint") == 0 || strcmp(action, "run.token") == 0) return "minted";
    switch (class % 100) {
    case 1: return "made";
    case 2: return "read";
    default: return "changed";
    }
}

/* ---- single events that are looked up ---- */

struct wanted {
    const char *actions[2];
    enum search_field field;
    const char *value;
};

static struct result add_conditions(const struct wanted *wanted, struct search *search, struct error *err)
{
    search->condition_count = 2;
    search->conditions[0].field = SEARCH_ACTION;
    for (size_t i = 0; i < 2 && wanted->actions[i] != NULL; i++)
        TRY(search_condition_add(&search->conditions[0], wanted->actions[i], err));
    search->conditions[1].field = wanted->field;
    return search_condition_add(&search->conditions[1], wanted->value, err);
}

static struct result look(const struct request *request, const struct search_source *source, struct search *search,
                          struct leaf *leaf_out, struct error *err)
{
    struct search_progress progress = {.is_done = false};

    for (unsigned i = 0; i < LOOKS_MAX && !progress.is_done; i++, search->from = progress.searched) {
        OWNED(audit_page) *page = NULL;
        TRY(audit_search_page(request, source, search, &page, &progress, err));
        if (audit_page_count(page) > 0) return leaf_read(audit_page_leaf(page, 0), leaf_out, err);
    }
    if (progress.known < progress.wanted)
        return failure(err, ERROR_UNAVAILABLE,
                       "the index of searches does not have the whole log yet: ask again in some minutes");
    return failure(err, ERROR_NOT_FOUND, "there is no such event");
}

/* The first event that is wanted. ERROR_NOT_FOUND. */
static struct result find_event(const struct request *request, const struct search_source *source, const struct wanted *wanted,
                                struct leaf *leaf_out, struct error *err)
{
    struct search *search = memory_zeroed(1, sizeof *search);

    if (search == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a search");
    audit_search_init(search, 1);
    struct result found = add_conditions(wanted, search, err);
    if (found.ok) found = look(request, source, search, leaf_out, err);
    free(search);
    return found;
}

/* ---- the credential ---- */

/* A token's id is that of the request that asked for it, a dot, and a random part; either is enough to name it. */
bool exposure_is_token(const char *text, char request_out[UUID_TEXT_SIZE])
{
    const char *dot = strchr(text, '.');
    const size_t length = dot == NULL ? strlen(text) : (size_t)(dot - text);
    struct uuid id;

    if (length != UUID_TEXT_SIZE - 1 || !uuid_parse((struct bytes){(const uint8_t *)text, length}, &id)) return false;
    memcpy(request_out, text, length);
    request_out[length] = '\0';
    return true;
}

/* The actors of this name, if there are any, are in the condition already. */
static struct result by_token(const struct request *request, const char *id, struct exposure *exposure, struct error *err)
{
    const struct wanted wanted = {{"token.mint", "run.token"}, SEARCH_REQUEST, id};
    struct search_condition *condition = &exposure->search.conditions[exposure->search.condition_count - 1];
    struct leaf leaf;

    exposure->named = condition->count;
    const struct result found = find_event(request, &exposure->source, &wanted, &leaf, err);
    if (!found.ok && err->kind == ERROR_NOT_FOUND && condition->count > 0) return SUCCESS;
    exposure->kind = OF_TOKEN;
    if (!found.ok && err->kind == ERROR_NOT_FOUND)
        return failure(err, ERROR_NOT_FOUND,
                       "no event made a token of this id: its first 36 characters are the id of the request");
    TRY(found);
    return search_condition_add(condition, leaf.actor, err);
}

static bool is_thumbprint(const char *text)
{
    return strlen(text) == THUMBPRINT && text_consists_of(bytes_of_text(text), BASE64_CHARS);
}

static struct result by_certificate(struct exposure *exposure, struct error *err)
{
    exposure->kind = OF_CERTIFICATE;
    exposure->name += strlen(CERTIFICATE);
    return is_thumbprint(exposure->name) ? SUCCESS : failure(err, ERROR_INVALID, "a thumbprint has %d characters", THUMBPRINT);
}

/*
 * Issuers choose the names of persons: many are UUIDs, as ids of tokens begin, or have the form of a thumbprint. So whoever has the name counts, too; a
 * certificate, for which all events are read, counts if nobody has it, or if it is asked for as one.
 */
static struct result read_credential(const struct request *request, struct exposure *exposure, struct error *err)
{
    struct search *search = &exposure->search;
    struct search_condition *condition = &search->conditions[0];
    char id[UUID_TEXT_SIZE];

    if (strncmp(exposure->name, CERTIFICATE, strlen(CERTIFICATE)) == 0) return by_certificate(exposure, err);
    condition->field = SEARCH_ACTOR;
    TRY(audit_search_actor(request, &exposure->source, exposure->name, condition, err));
    search->condition_count = 1;
    if (exposure_is_token(exposure->name, id)) return by_token(request, id, exposure, err);
    if (condition->count > 0 || !is_thumbprint(exposure->name)) return SUCCESS;
    search->condition_count = 0;
    exposure->kind = OF_CERTIFICATE;
    return SUCCESS;
}

struct result exposure_read(const struct request *request, struct exposure *exposure, struct error *err)
{
    const char *run = request_argument(request, "run");

    TRY(audit_search_times(request, &exposure->search, err));
    exposure->name = run == NULL ? request_argument(request, "credential") : run;
    if (run == NULL) return read_credential(request, exposure, err);
    exposure->kind = OF_RUN;
    struct search_condition *condition = &exposure->search.conditions[exposure->search.condition_count++];
    condition->field = SEARCH_RUN;
    return search_condition_add(condition, run, err);
}

static bool has_the_name(const struct exposure *exposure, const json_t *entry)
{
    const struct search_condition *condition = &exposure->search.conditions[0];
    const char *actor = json_text_of(entry, "actor");

    for (size_t i = 0; i < exposure->named; i++)
        if (actor != NULL && strcmp(condition->values[i], actor) == 0) return true;
    return false;
}

bool exposure_has(const struct exposure *exposure, const json_t *event)
{
    const json_t *who = json_object_get(event, "who");
    const char *token = json_text_of(who, "token"), *certificate = json_text_of(who, "certificate");
    const size_t length = strlen(exposure->name);

    if (exposure->kind == OF_CERTIFICATE) return certificate != NULL && strcmp(certificate, exposure->name) == 0;
    if (exposure->kind != OF_TOKEN || has_the_name(exposure, json_object_get(event, "entry"))) return true;
    return token != NULL && strncmp(token, exposure->name, length) == 0 && (token[length] == '\0' || token[length] == '.');
}
