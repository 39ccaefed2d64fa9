/* Who has signed the sets of a registry: counted on this machine, from the root's key on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/policy_priv.h"
#include "client/http.h"
#include "documents/format/set_approval.h"

#define NAME_ROOM 80 /* "sha256:" and 64 digits */

/* ---- lists ---- */

static struct result pages(struct session *session, const char *path, const char *list, json_t **rows_out, struct error *err)
{
    OWNED_JSON rows = json_array();

    if (rows == NULL) return api_no_memory(err);
    TRY(api_collect(session, path, list, (size_t)SET_CHAIN_LINKS_MAX + 1, rows, err));
    if (json_array_size(rows) > SET_CHAIN_LINKS_MAX)
        return failure(err, ERROR_LIMIT, "more than %d policy sets and keys of approvers", SET_CHAIN_LINKS_MAX);
    *rows_out = GIVE(rows);
    return SUCCESS;
}

/* ---- the sets ---- */

/* Which set is looked for. */
struct wanted {
    uint64_t epoch;
    char digest[NAME_ROOM]; /* "": the one of this epoch */
};

/* The row of the newest event of this epoch, as the registry answers with that one. */
static json_t *row_of(const json_t *rows, const struct wanted *wanted)
{
    json_t *found = NULL;

    for (size_t i = 0; i < json_array_size(rows); i++)
        if ((uint64_t)number_of(json_array_get(rows, i), "epoch") == wanted->epoch) found = json_array_get(rows, i);
    const char *digest = found == NULL ? NULL : json_text_of(found, "digest");
    return digest != NULL && (wanted->digest[0] == '\0' || strcmp(digest, wanted->digest) == 0) ? found : NULL;
}

static uint64_t epoch_below(const json_t *rows, uint64_t epoch)
{
    uint64_t below = 0;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const uint64_t each = (uint64_t)number_of(json_array_get(rows, i), "epoch");
        if (each < epoch && each > below) below = each;
    }
    return below;
}

/* The set that this one says it replaces. One that does not say it is the root's alone, and so was the one before it. */
static struct result step_back(const json_t *rows, const struct policy_set *set, struct wanted *wanted, struct error *err)
{
    struct set_approval approval;

    TRY(set_approval_read(policy_set_json(set), &approval, err));
    *wanted = (struct wanted){.epoch = approval.is_there ? approval.base.epoch : epoch_below(rows, policy_set_epoch(set))};
    if (!approval.is_there || wanted->epoch == 0) return SUCCESS;
    (void)snprintf(wanted->digest, sizeof wanted->digest, "sha256:");
    text_hex(approval.base.digest, sizeof approval.base.digest, wanted->digest + strlen("sha256:"));
    return SUCCESS;
}

/* What the history says of a set is what the set says of itself. */
static struct result check_row(const json_t *row, const struct policy_set *set, struct error *err)
{
    const char *digest = json_text_of(row, "digest"), *comment = json_text_of(row, "comment");
    struct set_approval approval;

    TRY(set_approval_read(policy_set_json(set), &approval, err));
    if (digest != NULL && strcmp(digest, policy_set_digest(set)) == 0 &&
        (uint64_t)number_of(row, "epoch") == policy_set_epoch(set) &&
        strcmp(comment == NULL ? "" : comment, approval.comment == NULL ? "" : approval.comment) == 0)
        return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the history of the registry says something else of the set of epoch %llu than was signed",
                   (unsigned long long)policy_set_epoch(set));
}

static struct result add_set(json_t *links, json_t *row, const struct policy_source *source, struct error *err)
{
    const char *loaded = json_text_of(row, "loaded");
    int64_t time_ms = 0;

    TRY(check_row(row, source->set, err));
    if (loaded == NULL || !clock_parse(bytes_of_text(loaded), &time_ms))
        return failure(err, ERROR_INVALID, "the registry does not say when a set was loaded");
    json_t *link =
        json_pack("{s:I, s:I, s:[s], s:I, s:O}", "event", (json_int_t)number_of(row, "event"), "time_ms", (json_int_t)time_ms,
                  "envelopes", buffer_text(&source->envelope), "epoch", (json_int_t)policy_set_epoch(source->set), "row", row);
    return json_array_append_new(links, link) == 0 ? SUCCESS : api_no_memory(err);
}

static struct result missing(const struct wanted *wanted, struct error *err)
{
    return failure(err, ERROR_CORRUPT, "the registry does not show the set of epoch %llu that a later one replaces",
                   (unsigned long long)wanted->epoch);
}

/* The last one first. */
static struct result add_sets(struct session *session, const json_t *rows, const struct policy_source *last, json_t *links,
                              struct error *err)
{
    struct wanted wanted = {.epoch = policy_set_epoch(last->set)};

    (void)snprintf(wanted.digest, sizeof wanted.digest, "%s", policy_set_digest(last->set));
    while (wanted.epoch != 0) {
        struct policy_source OWNED_SOURCE source = {.name = NULL};
        const uint64_t above = wanted.epoch;
        json_t *row = row_of(rows, &wanted);
        if (row == NULL) return missing(&wanted, err);
        TRY(policy_source_fetch(session, wanted.epoch, &source, err));
        TRY(add_set(links, row, &source, err));
        TRY(step_back(rows, source.set, &wanted, err));
        if (wanted.epoch >= above) return failure(err, ERROR_CORRUPT, "the sets of the registry replace each other in a circle");
    }
    return SUCCESS;
}

/* ---- keys, and the order ---- */

static struct result note_times(json_t *rows, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const char *time = json_text_of(row, "time");
        int64_t time_ms = 0;
        if (time == NULL || !clock_parse(bytes_of_text(time), &time_ms) ||
            json_object_set_new(row, "time_ms", json_integer(time_ms)) != 0)
            return failure(err, ERROR_INVALID, "the registry does not say when a document was recorded");
    }
    return SUCCESS;
}

static struct result add_keys(struct session *session, json_t *links, struct error *err)
{
    OWNED_JSON rows = NULL;

    TRY(pages(session, "/policies/approvers?limit=100", "keys", &rows, err));
    TRY(note_times(rows, err));
    return json_array_extend(links, rows) == 0 ? SUCCESS : api_no_memory(err);
}

static int by_event(const void *a, const void *b)
{
    json_t *const *left = a, *const *right = b;
    const int64_t one = number_of(*left, "event"), other = number_of(*right, "event");

    return (one > other) - (one < other);
}

/* Keys that came after the last set are left out. */
static struct result in_order(const json_t *links, int64_t last, json_t **sorted_out, struct error *err)
{
    const size_t count = json_array_size(links);
    OWNED_JSON sorted = json_array();
    OWNED_STRING room = memory_zeroed(count + 1, sizeof(json_t *));
    json_t **each = (void *)room;

    if (sorted == NULL || room == NULL) return api_no_memory(err);
    for (size_t i = 0; i < count; i++) each[i] = json_array_get(links, i);
    qsort(each, count, sizeof each[0], by_event); /* NOLINT(bugprone-sizeof-expression) */
    for (size_t i = 0; i < count; i++)
        if (number_of(each[i], "event") <= last && json_array_append(sorted, each[i]) != 0) return api_no_memory(err);
    *sorted_out = GIVE(sorted);
    return SUCCESS;
}

struct result policy_links_fetch(struct session *session, const struct policy_source *source, json_t **rows_out,
                                 json_t **links_out, struct error *err)
{
    OWNED_JSON links = json_array();
    OWNED_JSON rows = NULL;

    if (links == NULL) return api_no_memory(err);
    TRY(pages(session, "/policies/history?limit=16", "sets", &rows, err));
    TRY(add_sets(session, rows, source, links, err));
    const int64_t last = number_of(json_array_get(links, 0), "event");
    TRY(add_keys(session, links, err));
    TRY(in_order(links, last, links_out, err));
    *rows_out = GIVE(rows);
    return SUCCESS;
}

/* ---- an organisation ---- */

static bool has_event(const json_t *links, int64_t event)
{
    for (size_t i = 0; i < json_array_size(links); i++)
        if (number_of(json_array_get(links, i), "event") == event) return true;
    return false;
}

struct result restriction_links_without(const json_t *all, const json_t *links, json_t *documents, struct error *err)
{
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *row = json_array_get(all, i);
        if (!has_event(links, number_of(row, "event")) && json_array_append(documents, row) != 0) return api_no_memory(err);
    }
    return SUCCESS;
}

struct result restriction_links_fetch(struct session *session, const char *organisation, const json_t *links,
                                      json_t **documents_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON documents = json_array();
    OWNED_JSON rows = NULL;

    if (documents == NULL) return api_no_memory(err);
    TRY(buffer_add_text(&path, "/policies/restrictions?limit=100&scope=", err));
    TRY(http_escape(&path, organisation, err));
    TRY(pages(session, buffer_text(&path), "documents", &rows, err));
    TRY(note_times(rows, err));
    TRY(restriction_links_without(rows, links, documents, err));
    *documents_out = GIVE(documents);
    return SUCCESS;
}

struct result policy_links_until(struct session *session, const struct policy_source *source, json_t *last, json_t **links_out,
                                 struct error *err)
{
    OWNED_JSON links = json_array();
    OWNED_JSON rows = NULL;

    if (links == NULL) return api_no_memory(err);
    TRY(pages(session, "/policies/history?limit=16", "sets", &rows, err));
    TRY(add_sets(session, rows, source, links, err));
    TRY(add_keys(session, links, err));
    if (json_array_append(links, last) != 0) return api_no_memory(err);
    return in_order(links, number_of(last, "event"), links_out, err);
}

/* ---- counting ---- */

struct result policy_link_read(const json_t *link, struct bytes *envelopes, struct set_chain_link *read_out, struct error *err)
{
    const json_t *texts = json_object_get(link, "envelopes");

    *read_out = (struct set_chain_link){
        .envelopes = envelopes, .sequence = (uint64_t)number_of(link, "event"), .time_ms = number_of(link, "time_ms")};
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        if (text == NULL || i == DOCUMENT_SIGNATURES_MAX)
            return failure(err, ERROR_INVALID, "the registry answered with something else than 1 to %d envelopes",
                           DOCUMENT_SIGNATURES_MAX);
        envelopes[read_out->count++] = bytes_of_text(text);
    }
    return SUCCESS;
}

struct result policy_link_follow(const json_t *links, size_t index, struct set_chain *chain, struct error *err)
{
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
    struct set_chain_link added;

    TRY(policy_link_read(json_array_get(links, index), envelopes, &added, err));
    added.is_followed = index + 1 < json_array_size(links);
    return set_chain_add(chain, &added, err);
}

/* A set that names nobody else is the root's alone, whatever was before it. */
struct result policy_source_check(struct session *session, struct policy_source *source, struct error *err)
{
    OWNED(policy_set) *again = NULL;
    OWNED_JSON links = NULL;
    OWNED_JSON rows = NULL;

    if (!policy_set_names_others(source->set)) return policy_set_read(buffer_bytes(&source->envelope), source->root, &again, err);
    TRY(policy_links_fetch(session, source, &rows, &links, err));
    TRY(set_chain_new(source->root, &source->chain, err));
    for (size_t i = 0; i < json_array_size(links); i++) TRY(policy_link_follow(links, i, source->chain, err));
    return SUCCESS;
}
