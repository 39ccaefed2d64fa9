/* /scim/v2/Users: persons that a program provisions (docs/scim.md). */
#include <string.h>

#include "base/text.h"
#include "gateway/api/scim_priv.h"

PART(scim_meta, "what the registry knows of the resource", HAS_TEXT("resourceType", REQUIRED, FORM_FREE, 1, 32, "User or Group"),
     HAS_TIME("created", REQUIRED, "when it was made"), HAS_TIME("lastModified", REQUIRED, "when it was changed last"),
     HAS_TEXT("location", REQUIRED, FORM_FREE, 1, 512, "its URL"), HAS_TEXT("version", REQUIRED, FORM_FREE, 1, 32, "its ETag"))
SCHEMA_WITH(SCHEMA_IS_OPEN | SCHEMA_IS_READ_ELSEWHERE, scim_user, "a person (RFC 7643, 4.1); other attributes are not kept",
            HAS_TEXT("userName", OPTIONAL, FORM_FREE, 1, SCIM_NAME_MAX, "what it is called at the issuer; of one service unique"),
            HAS_TEXT("externalId", OPTIONAL, FORM_FREE, 1, SCIM_EXTERNAL_MAX,
                     "the value of the claim that the service's document names"),
            HAS_TEXT("displayName", OPTIONAL, FORM_FREE, 0, SCIM_NAME_MAX, "its name for people"),
            HAS_ANY("active", OPTIONAL, "true or false: false ends all that the person does here"),
            HAS_ID("id", OPTIONAL, "of an answer"), HAS_OBJECT("meta", OPTIONAL, schema_scim_meta, "of an answer"))
SCHEMA_WITH(SCHEMA_IS_OPEN | SCHEMA_IS_READ_ELSEWHERE, scim_patch, "operations (RFC 7644, 3.5.2)",
            HAS_ANY("schemas", OPTIONAL, "urn:ietf:params:scim:api:messages:2.0:PatchOp"),
            HAS_ANY("Operations", OPTIONAL, "at most 1000, each with op, path and value"))
SCHEMA_WITH(SCHEMA_IS_OPEN, scim_list, "a page (RFC 7644, 3.4.2)", HAS_COUNT("totalResults", REQUIRED, "of all pages"),
            HAS_COUNT("startIndex", REQUIRED, "of the first one, from 1"), HAS_COUNT("itemsPerPage", REQUIRED, "of this page"),
            HAS_ANY("Resources", REQUIRED, "the resources"))

/* ---- targets ---- */

struct result target_scim_look(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    scim_pair(request, ACTION_SCIM_LOOK);
    return SUCCESS;
}

struct result target_scim_user_create(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    scim_pair(request, ACTION_SCIM_CREATE);
    return SUCCESS;
}

static struct result read_edit(struct request *request, struct scim_user_edit *edit, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    return request->method == METHOD_PATCH ? scim_user_patch(body, edit, err) : scim_user_read(body, edit, err);
}

/* The body says whether the person may come in afterwards. */
struct result target_scim_user_change(struct request *request, struct lookup *lookup, struct error *err)
{
    struct scim_user_edit edit = {.is_whole = false};

    (void)lookup;
    if (request->principal->kind != PRINCIPAL_NONE) TRY(read_edit(request, &edit, err));
    scim_pair(request, scim_user_ends(&edit) ? ACTION_SCIM_END : ACTION_SCIM_CHANGE);
    return SUCCESS;
}

struct result target_scim_user_delete(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    scim_pair(request, ACTION_SCIM_END);
    return SUCCESS;
}

/* ---- answers ---- */

/* A person whose key is gone has its externalId as its name, because the standard demands one. */
static struct result describe(const struct request *request, const struct scim_site *site, const struct scim_user_row *row,
                              json_t **user_out, struct error *err)
{
    char id[UUID_TEXT_SIZE], name[SEALED_TEXT_MAX + 1], shown[SEALED_TEXT_MAX + 1];
    const struct scim_meta meta = {"User", "Users", &row->id, row->created_ms, row->modified_ms, row->version};

    uuid_format(&row->id, id);
    TRY(scim_name_open(request->permit, &site->look, row, SCIM_USER_NAME_BOX, name, err));
    TRY(scim_name_open(request->permit, &site->look, row, SCIM_DISPLAY_NAME_BOX, shown, err));
    OWNED_JSON user = json_pack("{s:[s], s:s, s:s, s:s, s:s*, s:b}", "schemas", SCIM_USER_URN, "id", id, "externalId",
                                row->external_id, "userName", name[0] == '\0' ? row->external_id : name, "displayName",
                                shown[0] == '\0' ? NULL : shown, "active", row->is_active ? 1 : 0);
    if (user == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a User");
    TRY(scim_finish(request, &meta, user, err));
    *user_out = GIVE(user);
    return SUCCESS;
}

static struct result answer_user(struct request *request, const struct scim_site *site, const struct uuid *id, unsigned status,
                                 struct error *err)
{
    struct scim_user_row row;
    OWNED_JSON user = NULL;

    TRY(scim_user_find(request->permit, &site->look, id, &row, err));
    TRY(describe(request, site, &row, &user, err));
    const struct scim_meta meta = {"User", "Users", &row.id, row.created_ms, row.modified_ms, row.version};
    return scim_answer(request, status, &meta, user, err);
}

/* ---- looking ---- */

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_SITE site = {0};
    struct uuid id;

    TRY(scim_id(request, "User", &id, err));
    TRY(scim_site_open(request, pg, ACTION_SCIM_LOOK, &site, err));
    return answer_user(request, &site, &id, 200, err);
}

/* What a filter compares; memory of the query. */
struct chosen {
    struct uuid id;
    char external_id[SCIM_NAME_MAX + 1];
    uint8_t name_index[32];
    bool active, is_empty;
};

static struct result choose(const struct scim_site *site, const struct scim_term *term, struct chosen *chosen,
                            struct scim_user_query *query, struct error *err)
{
    switch (term->attribute) {
    case SCIM_ID:
        chosen->is_empty = chosen->is_empty || !uuid_parse(bytes_of_text(term->text), &chosen->id);
        query->id = &chosen->id;
        return SUCCESS;
    case SCIM_EXTERNAL_ID:
        (void)text_copy(chosen->external_id, sizeof chosen->external_id, term->text);
        query->external_id = chosen->external_id;
        return SUCCESS;
    case SCIM_USER_NAME:
        query->name_index = chosen->name_index;
        return scim_name_index(&site->source, site->client.issuer, term->text, chosen->name_index, err);
    case SCIM_ACTIVE:
        chosen->active = term->flag;
        query->active = &chosen->active;
        return SUCCESS;
    case SCIM_DISPLAY_NAME:
    case SCIM_MEMBERS:
    case SCIM_READ_ONLY:
    case SCIM_NOT_KEPT: break;
    }
    return failure(err, ERROR_INVALID,
                   "invalidFilter: Users are found by id, externalId, userName and active: other names are sealed");
}

static struct result list(struct request *request, const struct scim_site *site, const struct scim_user_page *found,
                          json_t *users, struct error *err)
{
    for (size_t i = 0; i < found->count; i++) {
        OWNED_JSON user = NULL;
        TRY(describe(request, site, &found->rows[i], &user, err));
        if (json_array_append(users, user) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for Users");
    }
    return SUCCESS;
}

/* A comparison that comes twice is made once with each value, so the later one would win: such filters are refused. */
static struct result read_query(const struct request *request, const struct scim_site *site, struct chosen *chosen,
                                struct scim_user_query *query, struct error *err)
{
    struct scim_filter filter = {0};
    bool has_filter = false;

    TRY(scim_filter_of(request, &filter, &has_filter, err));
    for (size_t i = 0; i < filter.count; i++) {
        for (size_t before = 0; before < i; before++)
            if (filter.terms[before].attribute == filter.terms[i].attribute)
                return failure(err, ERROR_INVALID, "invalidFilter: an attribute is compared twice");
        TRY(choose(site, &filter.terms[i], chosen, query, err));
    }
    return SUCCESS;
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    struct scim_user_page *found = arena_take(request->arena, sizeof *found);
    struct chosen chosen = {.is_empty = false};
    OWNED_JSON users = json_array();
    OWNED_SITE site = {0};
    struct scim_page page;

    if (found == NULL || users == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for Users");
    TRY(scim_site_open(request, pg, ACTION_SCIM_LOOK, &site, err));
    TRY(scim_page_read(request, &page, err));
    struct scim_user_query query = {.issuer = site.client.issuer, .first = page.first, .limit = page.limit};
    TRY(read_query(request, &site, &chosen, &query, err));
    if (!chosen.is_empty) TRY(scim_user_list(request->permit, pg, &query, found, err));
    TRY(list(request, &site, found, users, err));
    return scim_answer_list(request, &page, found->total, json_incref(users), err);
}

/* ---- changes ---- */

static struct result handle_create(struct request *request, struct pg *pg, struct error *err)
{
    struct scim_sealed_names names = {.has_name = false};
    struct scim_user_change change;
    struct scim_user_edit edit;
    OWNED_SITE site = {0};

    TRY(read_edit(request, &edit, err));
    TRY(scim_site_open(request, pg, ACTION_SCIM_CREATE, &site, err));
    TRY(scim_names_seal(&site.source, site.client.issuer, edit.external_id, &edit, &names, err));
    scim_user_create_init(&change, &site.client, &edit, &names);
    TRY(request_record(request, &change.change, err));
    return answer_user(request, &site, &change.id, 201, err);
}

/*
 * Whether it may begin or cease to be active: else the rights need not be read again. The row says so, and not this gateway's snapshot, in which a person that another
 * gateway has just made is missing: a directory that is told 404 takes the person for gone, and never deactivates it.
 */
static bool raises(const struct scim_user_row *person, const struct scim_user_edit *edit)
{
    return edit->has_active && edit->active != person->is_active;
}

static struct result handle_change(struct request *request, struct pg *pg, struct error *err)
{
    struct scim_sealed_names names = {.has_name = false};
    struct scim_user_change change;
    struct scim_user_edit edit;
    struct scim_user_row person;
    OWNED_SITE site = {0};
    struct error why = {0};
    struct uuid id;

    TRY(scim_id(request, "User", &id, err));
    TRY(read_edit(request, &edit, err));
    TRY(scim_site_open(request, pg, scim_user_ends(&edit) ? ACTION_SCIM_END : ACTION_SCIM_CHANGE, &site, err));
    TRY(scim_user_of(pg, site.client.issuer, &id, &person, err));
    TRY(scim_names_seal(&site.source, site.client.issuer, person.external_id, &edit, &names, err));
    scim_user_change_init(&change, &site.client, &person, &edit, &names, raises(&person, &edit));
    change.if_version = scim_if_match(request);
    if (!request_record(request, &change.change, &why).ok) return scim_refuse(request, change.is_other, &why, err);
    return answer_user(request, &site, &id, 200, err);
}

static struct result handle_delete(struct request *request, struct pg *pg, struct error *err)
{
    static const struct scim_sealed_names names = {.has_name = false};
    struct scim_user_change change;
    struct scim_user_row person;
    OWNED_SITE site = {0};
    struct error why = {0};
    struct uuid id;

    TRY(scim_id(request, "User", &id, err));
    TRY(scim_site_open(request, pg, ACTION_SCIM_END, &site, err));
    TRY(scim_user_of(pg, site.client.issuer, &id, &person, err));
    scim_user_change_init(&change, &site.client, &person, NULL, &names, true);
    change.if_version = scim_if_match(request);
    if (!request_record(request, &change.change, &why).ok) return scim_refuse(request, change.is_other, &why, err);
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_scim_user_show = {.handle = handle_show};
const struct handler handler_scim_user_list = {.handle = handle_list};
const struct handler handler_scim_user_create = {.handle = handle_create};
const struct handler handler_scim_user_change = {.handle = handle_change};
const struct handler handler_scim_user_delete = {.handle = handle_delete};
