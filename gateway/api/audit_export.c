/* /api/v1/audit/exports: all events under one key, with proof that none is missing (docs/audit.md, "Exports with proof of completeness"). */
#include <stdio.h>
#include <string.h>

#include "audit/export.h"
#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/text.h"
#include "gateway/api/audit_priv.h"
#include "registry/project.h"

PART_WITH(SCHEMA_IS_OPEN, export_filter, "conditions as searches have them; others than these may be given, too",
          HAS_TEXT("resource", OPTIONAL, FORM_FREE, 1, 255, "this name, exactly"),
          HAS_TEXT("prefix", OPTIONAL, FORM_FREE, 1, 255, "this name, or a name below it"),
          HAS_TEXT("actor", OPTIONAL, FORM_FREE, 1, 255, "a pseudonym, anonymous or system"),
          HAS_TEXT("outcome", OPTIONAL, FORM_FREE, 1, 64, "allowed, denied, failed or completed"))

SCHEMA(
    audit_export_wanted, "an export of the events under one key",
    HAS_TEXT(
        "key", OPTIONAL, FORM_FREE, 5, LEAF_KEY_MAX,
        "the key: org:, prj: or res: and a name, act: and a pseudonym, out:denied, out:failed. Required, unless there is `filter`"),
    HAS_TEXT("nonce", REQUIRED, FORM_FREE, EXPORT_NONCE_MIN, EXPORT_NONCE_MAX,
             "32 to 64 hexadecimal digits in lower case that the auditor has drawn: an older export has another one"),
    HAS_TEXT("from", OPTIONAL, FORM_FREE, 1, 35, "the first number, or the first time (RFC 3339); the beginning if left out"),
    HAS_TEXT("to", OPTIONAL, FORM_FREE, 1, 35, "the number or time before which the export ends; now if left out"),
    HAS_TEXT("within", OPTIONAL, FORM_NAMESPACE, 0, 127,
             "the organisation or organisation/project of which the caller is an auditor"),
    HAS_FLAG("open", OPTIONAL, "true: with names, addresses and claims, which are sealed otherwise; demands a purpose"),
    HAS_TEXT("purpose", OPTIONAL, FORM_FREE, 1, 512, "why the export is made: recorded, sealed, with its event"),
    HAS_OBJECT(
        "filter", OPTIONAL, schema_export_filter,
        "a filter whose completeness can't be proven. The answer is 422, with the keys whose exports have all events that meet it"))

SCHEMA(audit_export, "an export",
       HAS_COUNT("number", REQUIRED, "the sequence number of its closing entry, which names it in paths"),
       HAS_TEXT("key", REQUIRED, FORM_FREE, 5, LEAF_KEY_MAX, "the key"),
       HAS_WORD("unit", REQUIRED, "number time", "of `from` and `until`: sequence numbers, or milliseconds since 1970"),
       HAS_COUNT("from", REQUIRED, "the beginning of the range"),
       HAS_COUNT("until", REQUIRED, "its end, which is not in it; 9007199254740991: the closing entry"),
       HAS_TEXT("nonce", REQUIRED, FORM_FREE, EXPORT_NONCE_MIN, EXPORT_NONCE_MAX, "the auditor's"),
       HAS_FLAG("opened", REQUIRED, "whether the lines have what was sealed"))

/* ---- what is wanted ---- */

static struct result read_bound(const char *text, uint64_t *number, bool *is_time, struct error *err)
{
    int64_t time_ms = 0;

    if (text == NULL || text_to_u64(bytes_of_text(text), EXPORT_NUMBER_MAX, number)) return SUCCESS;
    *is_time = clock_parse(bytes_of_text(text), &time_ms) && time_ms >= 0;
    *number = (uint64_t)time_ms;
    return *is_time ? SUCCESS
                    : failure(err, ERROR_INVALID,
                              "from and to are sequence numbers, or times such as 2026-11-20T10:39:46Z (RFC 3339)");
}

static struct result read_range(const json_t *body, struct export_terms *terms, struct error *err)
{
    const char *from = json_text_of(body, "from"), *to = json_text_of(body, "to");
    bool is_from_time = false, is_to_time = false;

    terms->until = EXPORT_NUMBER_MAX;
    TRY(read_bound(from, &terms->from, &is_from_time, err));
    TRY(read_bound(to, &terms->until, &is_to_time, err));
    if (from != NULL && to != NULL && is_from_time != is_to_time)
        return failure(err, ERROR_INVALID, "from and to are both numbers, or both times");
    if (terms->from > terms->until) return failure(err, ERROR_INVALID, "the range ends before it begins: from is after to");
    terms->unit = is_from_time || is_to_time ? EXPORT_BY_TIME : EXPORT_BY_NUMBER;
    return SUCCESS;
}

/* A key with other letters is written into the leaf with '?', and would be another key there. */
static bool is_plain(const char *key)
{
    for (; *key != '\0'; key++)
        if (*key < ' ' || *key > '~' || *key == '"' || *key == '\\') return false;
    return true;
}

/* An export of org:acme/models would be complete, and have no event: a typing error would look like the proof that nothing happened. */
static bool has_form_of_its_kind(const char *key)
{
    const char *slash = strchr(key + 4, '/');

    if (strncmp(key, "org:", 4) == 0) return slash == NULL;
    if (strncmp(key, "prj:", 4) == 0) return slash != NULL && strchr(slash + 1, '/') == NULL;
    return true;
}

static struct result read_key(const char *key, struct export_terms *terms, struct error *err)
{
    if (key == NULL)
        return failure(err, ERROR_INVALID,
                       "an export is of one key: org:, prj: or res: and a name, act: and a pseudonym, out:denied or out:failed");
    if (!leaf_key_is_possible(key) || !is_plain(key) || !has_form_of_its_kind(key))
        return failure(
            err, ERROR_INVALID,
            "no event stands under the key \"%.80s\": a key is org:ORGANISATION, prj:ORGANISATION/PROJECT, res: and a whole name, act: "
            "and a pseudonym, anonymous or system, out:denied or out:failed",
            key);
    (void)snprintf(terms->key, sizeof terms->key, "%s", key);
    return SUCCESS;
}

static struct result read_terms(const json_t *body, struct export_terms *terms, struct error *err)
{
    const char *nonce = json_text_of(body, "nonce");

    if (!export_nonce_is_valid(bytes_of_text(nonce)))
        return failure(err, ERROR_INVALID,
                       "the nonce is 32 to 64 hexadecimal digits in lower case, drawn at random for this export");
    (void)snprintf(terms->nonce, sizeof terms->nonce, "%s", nonce);
    TRY(read_range(body, terms, err));
    terms->is_opened = json_is_true(json_object_get(body, "open"));
    if (terms->is_opened && json_text_of(body, "purpose") == NULL)
        return failure(err, ERROR_INVALID,
                       "names and addresses are opened for a purpose only: state it as `purpose`; it is recorded");
    if (json_object_get(body, "filter") != NULL) return SUCCESS;
    return read_key(json_text_of(body, "key"), terms, err);
}

/* The numbers under act: and out: count events of all organisations, so an auditor of one sees gaps there. */
static struct result check_within(const char *within, const struct export_terms *terms, struct error *err)
{
    const bool is_name = strncmp(terms->key, "act:", 4) != 0 && strncmp(terms->key, "out:", 4) != 0;
    const size_t length = strlen(within);
    const char *name = terms->key + 4;

    if (length == 0 || terms->key[0] == '\0') return SUCCESS;
    if (is_name && strncmp(name, within, length) == 0 && (name[length] == '\0' || name[length] == '/')) return SUCCESS;
    return failure(
        err, ERROR_INVALID,
        "within %.64s, completeness can be proven of keys org:, prj: and res: of this name and of names below it; the numbers "
        "under other keys count events of others, too",
        within);
}

static struct result read_wanted(struct request *request, const json_t **body_out, struct export_terms *terms_out,
                                 struct error *err)
{
    struct export_terms terms = {.from = 0};
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    const char *within = json_text_of(body, "within");
    TRY(read_terms(body, &terms, err));
    TRY(check_within(within == NULL ? "" : within, &terms, err));
    *body_out = body;
    *terms_out = terms;
    return SUCCESS;
}

struct result target_audit_export(struct request *request, struct lookup *lookup, struct error *err)
{
    struct export_terms terms;
    const json_t *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_AUDIT_EXPORT)) return SUCCESS;
    TRY(read_wanted(request, &body, &terms, err));
    const char *within = json_text_of(body, "within");
    audit_pair_within(request, ACTION_AUDIT_EXPORT, within);
    request->purpose = json_text_of(body, "purpose"); /* the document lives as long as the request */
    return SUCCESS;
}

/* ---- filters that no key stands for ---- */

static struct result keys_of_filter(const json_t *filter, json_t *keys, struct error *err)
{
    static const char *const conditions[] = {"resource", "prefix", "actor", "outcome"};
    char key[LEAF_KEY_MAX + 1];
    bool is_exact = false;

    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
        const char *value = json_text_of(filter, conditions[i]);
        if (value == NULL || !leaf_key_of_condition(conditions[i], value, key, &is_exact)) continue;
        if (json_array_append_new(keys, json_string(key)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for the keys of a filter");
    }
    return SUCCESS;
}

static struct result answer_filter(struct request *request, const json_t *filter, struct error *err)
{
    OWNED_JSON extra = json_pack("{s:[]}", "provable");

    if (extra == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of a filter");
    json_t *keys = json_object_get(extra, "provable");
    TRY(keys_of_filter(filter, keys, err));
    response_problem_with(
        request, 422, "Completeness can't be proven",
        json_array_size(keys) > 0
            ? "Events are numbered under single keys, so it can be proven of one key that none is missing, and not of this filter. An export of any "
              "of the keys in `provable` has every event that meets the filter: export one, and select from it."
            : "Events are numbered under single keys: the organisation, project and name, the actor's pseudonym, and denied or failed. This filter has none "
              "of these: export the key org: of each organisation, and select from it; or search without a proof.",
        extra);
    return SUCCESS;
}

/* ---- the closing entry ---- */

/* An export changes nothing: it is its own event. */
static struct result run_nothing(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    (void)permit, (void)change, (void)pg, (void)err;
    return SUCCESS;
}

static struct result answer_export(struct request *request, const struct export_terms *terms, struct error *err)
{
    OWNED_JSON value = json_pack("{s:I, s:s, s:s, s:I, s:I, s:s, s:b}", "number", (json_int_t)permit_sequence(request->permit),
                                 "key", terms->key, "unit", export_unit_name(terms->unit), "from", (json_int_t)terms->from,
                                 "until", (json_int_t)terms->until, "nonce", terms->nonce, "opened", terms->is_opened ? 1 : 0);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_json(request, 201, value);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result handle_export(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER detail = BUFFER(EXPORT_TERMS_MAX);
    struct export_terms terms;
    const json_t *body = NULL;

    (void)pg;
    TRY(read_wanted(request, &body, &terms, err));
    TRY(api_scope_exists(&request->pairs[0].resource, err));
    const json_t *filter = json_object_get(body, "filter");
    if (filter != NULL) return answer_filter(request, filter, err);
    TRY(export_terms_write(&terms, &detail, err));
    struct change change = {.run = run_nothing, .invalidates = CHANGE_INVALIDATES_NOTHING, .detail = buffer_text(&detail)};
    TRY(request_record(request, &change, err));
    return answer_export(request, &terms, err);
}

/* ---- lines ---- */

struct result target_audit_export_lines(struct request *request, struct lookup *lookup, struct error *err)
{
    TRY(target_audit_read(request, lookup, err));
    if (request->pair_count == 0) return SUCCESS;
    struct resource *resource = &request->pairs[0].resource;
    (void)snprintf(resource->detail, sizeof resource->detail, "export %.20s", request->reference);
    return SUCCESS;
}

static struct result read_lines(const struct request *request, struct audit_export_lines *lines, struct error *err)
{
    const char *format = request_argument(request, "format"), *after = request_argument(request, "after");

    if (format != NULL && !export_format_find(format, &lines->format))
        return failure(err, ERROR_INVALID, "format is ndjson, csv or ocsf");
    lines->has_after = after != NULL && after[0] != '\0';
    if (!lines->has_after || text_to_u64(bytes_of_text(after), EXPORT_NUMBER_MAX, &lines->after)) return SUCCESS;
    return failure(err, ERROR_INVALID, "after is the sequence number of the last line that you have");
}

/* All lines of an export are under one checkpoint, which the head has. The newest one may not be in the table yet. */
static struct result find_checkpoint(const struct request *request, struct pg *pg, uint64_t closing,
                                     struct signed_checkpoint *checkpoint_out, struct error *err)
{
    const char *size = request_argument(request, "size");
    char newest[24];

    TRY(api_newest(request, closing + 1, checkpoint_out, err));
    (void)snprintf(newest, sizeof newest, "%llu", (unsigned long long)checkpoint_out->size);
    if (size == NULL || strcmp(size, newest) == 0) return SUCCESS;
    TRY(api_published(request, pg, ACTION_AUDIT_READ, size, checkpoint_out, err));
    if (closing < checkpoint_out->size) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "the export is not in the log of %s entries", size);
}

static struct result fill_lines(struct request *request, struct pg *pg, struct buffer *text, struct error *err)
{
    struct audit_export_lines lines = {.format = EXPORT_NDJSON,
                                       .keyd = request->gateway->keyd,
                                       .origin = request->gateway->origin,
                                       .log_name = request->gateway->log_name};
    struct signed_checkpoint checkpoint;
    struct audit_export export;
    uint64_t number = 0;

    TRY(read_lines(request, &lines, err));
    TRY(namespace_born(request->permit, pg, &lines.born, err));
    if (!text_to_u64(bytes_of_text(request->reference), EXPORT_NUMBER_MAX, &number) || number < lines.born)
        return failure(err, ERROR_NOT_FOUND, "there is no such export of yours");
    TRY(audit_export_find(request->permit, pg, number, &export, err));
    TRY(find_checkpoint(request, pg, number, &checkpoint, err));
    lines.export = &export;
    lines.checkpoint = &checkpoint;
    return audit_export_write(request->permit, pg, &lines, text, err);
}

static struct result handle_lines(struct request *request, struct pg *pg, struct error *err)
{
    static const struct api_large kind = {
        .what = "pages of exports", .type = "text/plain; charset=utf-8", .maximum = AUDIT_EXPORT_PAGE_MAX, .fill = fill_lines};
    const struct result answered = api_answer_large(request, pg, &kind, err);

    if (!answered.ok && api_proves_later(request, pg, err)) return SUCCESS;
    TRY(answered);
    if (request->response != NULL) response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

const struct handler handler_audit_export = {.handle = handle_export};
const struct handler handler_audit_export_lines = {.handle = handle_lines};
