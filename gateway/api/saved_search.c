/* /api/v1/audit/searches: searches that an auditor has saved (docs/audit.md, "Saved searches"). */
#include <string.h>

#include "audit/saved_search.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/secret.h"
#include "gateway/api/audit_priv.h"
#include "gateway/pipeline/document.h"

SCHEMA(search_wanted, "a search to be saved",
       HAS_TEXT("name", REQUIRED, FORM_FREE, 1, SAVED_NAME_MAX, "its name: of two of one name the later one stays"),
       HAS_TEXT("search", REQUIRED, FORM_FREE, 1, SAVED_TEXT_MAX, "its conditions, as in the query of a URL"),
       HAS_TEXT("within", OPTIONAL, FORM_NAMESPACE, 0, 127, "for an auditor of this organisation or organisation/project"))
SCHEMA(saved_search, "a saved search", HAS_ID("id", REQUIRED, "names it in paths"),
       HAS_TEXT("name", REQUIRED, FORM_FREE, 1, SAVED_NAME_MAX, "its name"),
       HAS_TEXT("search", REQUIRED, FORM_FREE, 1, SAVED_TEXT_MAX, "its conditions, as in the query of a URL"),
       HAS_TIME("saved", OPTIONAL, "when it was saved; left out in the answer to saving it"))
SCHEMA(saved_searches, "the saved searches of the caller",
       HAS_LIST("searches", REQUIRED, SAVED_SEARCHES_MAX, schema_saved_search, "oldest first"))

static struct saved_owner owner_of(const struct request *request)
{
    return (struct saved_owner){request->principal->issuer, request->principal->subject};
}

static struct search_source source_of(const struct request *request, struct pg *pg)
{
    return (struct search_source){pg, request->gateway->keyd, request->gateway->origin};
}

/* ---- targets ---- */

struct result target_search_save(struct request *request, struct lookup *lookup, struct error *err)
{
    const json_t *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_AUDIT_SAVE)) return SUCCESS;
    TRY(request_document(request, &body, err));
    audit_pair_within(request, ACTION_AUDIT_SAVE, json_text_of(body, "within"));
    return SUCCESS;
}

struct result target_search_unsave(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    audit_pair_within(request, ACTION_AUDIT_UNSAVE, request_argument(request, "within"));
    return SUCCESS;
}

/* ---- the list ---- */

static struct result describe(const struct saved_search *search, bool has_time, json_t **value_out, struct error *err)
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&search->id, id);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s}", "id", id, "name", search->name, "search", search->text);
    if (value == NULL || (has_time && !api_set_time(value, "saved", search->saved_ms)))
        return failure(err, ERROR_NO_MEMORY, "no memory for a saved search");
    *value_out = GIVE(value);
    return SUCCESS;
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct search_source source = source_of(request, pg);
    const struct saved_owner owner = owner_of(request);
    OWNED(saved_searches) *searches = NULL;
    OWNED_JSON answer = json_pack("{s:[]}", "searches");

    TRY(saved_search_list(request->permit, ACTION_AUDIT_READ, &source, &owner, &searches, err));
    for (size_t i = 0; i < searches->count; i++) {
        json_t *value = NULL;
        TRY(describe(&searches->each[i], true, &value, err));
        if (json_array_append_new(json_object_get(answer, "searches"), value) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for saved searches");
    }
    response_json(request, 200, answer);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

/* ---- saving ---- */

/* Nil if the owner has none of this name. */
static struct result find_named(const struct request *request, const struct search_source *source, const char *name,
                                struct uuid *id_out, struct error *err)
{
    const struct saved_owner owner = owner_of(request);
    OWNED(saved_searches) *searches = NULL;

    *id_out = (struct uuid){{0}};
    TRY(saved_search_list(request->permit, ACTION_AUDIT_SAVE, source, &owner, &searches, err));
    for (size_t i = 0; i < searches->count; i++)
        if (strcmp(searches->each[i].name, name) == 0) *id_out = searches->each[i].id;
    return SUCCESS;
}

static struct result save(struct request *request, const struct search_source *source, struct saved_search *search,
                          struct saved_search_change *change, struct error *err)
{
    const struct saved_owner owner = owner_of(request);
    OWNED_JSON value = NULL;

    TRY(saved_search_change_init(change, source, &owner, search, err));
    TRY(find_named(request, source, search->name, &change->replaced, err));
    TRY(request_record_outcome(request, OUTCOME_COMPLETED, "saved", &change->change, err));
    search->id = change->id;
    TRY(describe(search, false, &value, err));
    response_json(request, 201, value);
    return SUCCESS;
}

/* The request is recorded first, which also makes the key of the caller, if it had none. */
static struct result handle_save(struct request *request, struct pg *pg, struct error *err)
{
    const struct search_source source = source_of(request, pg);
    struct saved_search_change change = {.box = {0}};
    struct saved_search search = {.saved_ms = 0};
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    if (!text_copy(search.name, sizeof search.name, json_text_of(body, "name")) ||
        !text_copy(search.text, sizeof search.text, json_text_of(body, "search")))
        return failure(err, ERROR_INVALID, "the name or the search is too long");
    TRY(request_record(request, NULL, err));
    const struct result saved = save(request, &source, &search, &change, err);
    saved_search_change_done(&change);
    secret_wipe(&search, sizeof search);
    return saved;
}

static struct result handle_unsave(struct request *request, struct pg *pg, struct error *err)
{
    const struct search_source source = source_of(request, pg);
    const struct saved_owner owner = owner_of(request);
    struct saved_search_removal removal;
    struct uuid id;

    TRY(api_id(request, "saved search", &id, err));
    TRY(saved_search_removal_init(&removal, &source, &owner, &id, err));
    return api_remove(request, &removal.change, err);
}

const struct handler handler_search_list = {.handle = handle_list};
const struct handler handler_search_save = {.handle = handle_save};
const struct handler handler_search_unsave = {.handle = handle_unsave};
