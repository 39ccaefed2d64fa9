/* /scim/v2/Groups: groups that a program provisions (docs/scim.md). */
#include <string.h>

#include "authz/authenticate.h"
#include "authz/group_entry.h"
#include "base/text.h"
#include "gateway/api/scim_priv.h"

#define MEMBERS_SHOWN 20000 /* of all groups of a page; then the page ends */

SCHEMA_WITH(SCHEMA_IS_OPEN | SCHEMA_IS_READ_ELSEWHERE, scim_group, "a group (RFC 7643, 4.2)",
            HAS_TEXT("displayName", OPTIONAL, FORM_FREE, 1, SCIM_NAME_MAX, "its name for people"),
            HAS_TEXT("externalId", OPTIONAL, FORM_FREE, 0, SCIM_EXTERNAL_MAX, "its id at the issuer, which is never changed"),
            HAS_ANY("members", OPTIONAL, "at most 10000, each with the id of a User as its value"),
            HAS_ID("id", OPTIONAL, "of an answer"), HAS_ANY("meta", OPTIONAL, "of an answer"))

struct result target_scim_group_change(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    scim_pair(request, ACTION_SCIM_GROUP);
    return SUCCESS;
}

static void group_edit_done(struct scim_group_edit *edit)
{
    scim_group_edit_done(edit);
}
#define OWNED_EDIT __attribute__((cleanup(group_edit_done))) struct scim_group_edit

/* ---- answers ---- */

static struct result add_references(const struct request *request, json_t *members, struct error *err)
{
    for (size_t i = 0; i < json_array_size(members); i++) {
        json_t *member = json_array_get(members, i);
        struct buffer OWNED_BUFFER url = BUFFER(512);
        TRY(buffer_format(&url, err, "%s" SCIM_PATH "/Users/%s", authenticator_issuer(request->gateway->authenticator),
                          json_text_of(member, "value")));
        if (json_object_set_new(member, "$ref", json_string(buffer_text(&url))) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for members");
    }
    return SUCCESS;
}

static struct result describe(const struct request *request, const struct scim_site *site, const struct scim_group_row *row,
                              json_t **group_out, struct error *err)
{
    char id[UUID_TEXT_SIZE];
    const struct scim_meta meta = {"Group", "Groups", &row->id, row->created_ms, row->modified_ms, row->version};

    uuid_format(&row->id, id);
    OWNED_JSON group =
        json_pack("{s:[s], s:s, s:s*, s:s, s:[]}", "schemas", SCIM_GROUP_URN, "id", id, "externalId",
                  row->external_id[0] == '\0' ? NULL : row->external_id, "displayName", row->display_name, "members");
    if (group == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a Group");
    json_t *members = json_object_get(group, "members");
    if (scim_wants(request, "members")) TRY(scim_group_members(request->permit, &site->look, &row->id, members, err));
    TRY(add_references(request, members, err));
    TRY(scim_finish(request, &meta, group, err));
    *group_out = GIVE(group);
    return SUCCESS;
}

static struct result answer_group(struct request *request, const struct scim_site *site, const struct uuid *id, unsigned status,
                                  struct error *err)
{
    struct scim_group_row row;
    OWNED_JSON group = NULL;

    TRY(scim_group_find(request->permit, &site->look, id, &row, err));
    TRY(describe(request, site, &row, &group, err));
    const struct scim_meta meta = {"Group", "Groups", &row.id, row.created_ms, row.modified_ms, row.version};
    return scim_answer(request, status, &meta, group, err);
}

/* ---- looking ---- */

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_SITE site = {0};
    struct uuid id;

    TRY(scim_id(request, "Group", &id, err));
    TRY(scim_site_open(request, pg, ACTION_SCIM_LOOK, &site, err));
    return answer_group(request, &site, &id, 200, err);
}

/* What a filter compares; memory of the query. */
struct chosen {
    struct uuid id, member;
    struct scim_filter filter;
    bool is_empty;
};

static struct result choose(const struct scim_term *term, struct chosen *chosen, struct scim_group_query *query,
                            struct error *err)
{
    switch (term->attribute) {
    case SCIM_ID:
        chosen->is_empty = chosen->is_empty || query->id != NULL || !uuid_parse(bytes_of_text(term->text), &chosen->id);
        query->id = &chosen->id;
        return SUCCESS;
    case SCIM_MEMBERS:
        if (query->member != NULL) break;
        chosen->is_empty = chosen->is_empty || !uuid_parse(bytes_of_text(term->text), &chosen->member);
        query->member = &chosen->member;
        return SUCCESS;
    case SCIM_EXTERNAL_ID:
        if (query->external_id != NULL) break;
        query->external_id = term->text;
        return SUCCESS;
    case SCIM_DISPLAY_NAME:
        if (query->display_name != NULL) break;
        query->display_name = term->text;
        return SUCCESS;
    case SCIM_USER_NAME:
    case SCIM_ACTIVE:
    case SCIM_READ_ONLY:
    case SCIM_NOT_KEPT: break;
    }
    return failure(err, ERROR_INVALID, "invalidFilter: Groups are found by id, externalId, displayName and members, each once");
}

static struct result list(struct request *request, const struct scim_site *site, const struct scim_group_page *found,
                          json_t *groups, struct error *err)
{
    size_t members = 0;

    for (size_t i = 0; i < found->count && members < MEMBERS_SHOWN; i++) {
        OWNED_JSON group = NULL;
        TRY(describe(request, site, &found->rows[i], &group, err));
        members += json_array_size(json_object_get(group, "members"));
        if (json_array_append(groups, group) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for Groups");
    }
    return SUCCESS;
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    struct scim_group_page *found = arena_take(request->arena, sizeof *found);
    struct chosen chosen = {.is_empty = false};
    OWNED_JSON groups = json_array();
    OWNED_SITE site = {0};
    struct scim_page page;
    bool has_filter = false;

    if (found == NULL || groups == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for Groups");
    TRY(scim_site_open(request, pg, ACTION_SCIM_LOOK, &site, err));
    TRY(scim_page_read(request, &page, err));
    TRY(scim_filter_of(request, &chosen.filter, &has_filter, err));
    struct scim_group_query query = {.issuer = site.client.issuer, .first = page.first, .limit = page.limit};
    for (size_t i = 0; i < chosen.filter.count; i++) TRY(choose(&chosen.filter.terms[i], &chosen, &query, err));
    if (!chosen.is_empty) TRY(scim_group_list(request->permit, pg, &query, found, err));
    TRY(list(request, &site, found, groups, err));
    return scim_answer_list(request, &page, found->total, json_incref(groups), err);
}

/* ---- changes ---- */

/* Whether documents give roles to groups of SCIM at all: else the rights need not be read again. */
static bool raises(const struct scim_site *site)
{
    const struct trust_rules *rules = authz_snapshot_rules(site->snapshot);

    for (size_t i = 0; i < group_entries_count(rules); i++)
        if (group_entries_at(rules, i)->roles.is_provisioned) return true;
    return false;
}

static struct result record(struct request *request, struct scim_group_change *change, struct error *err)
{
    struct error why = {0};

    change->if_version = change->is_new ? 0 : scim_if_match(request);
    if (request_record(request, &change->change, &why).ok) return SUCCESS;
    return scim_refuse(request, change->is_other, &why, err);
}

static struct result handle_write(struct request *request, struct pg *pg, struct error *err)
{
    const bool is_new = request->reference == NULL;
    struct scim_group_change change;
    OWNED_EDIT edit = {.members = NULL};
    const json_t *body = NULL;
    OWNED_SITE site = {0};
    struct uuid id = {{0}};

    if (!is_new) TRY(scim_id(request, "Group", &id, err));
    TRY(request_document(request, &body, err));
    if (request->method == METHOD_PATCH) TRY(scim_group_patch(body, &edit, err));
    else TRY(scim_group_read(body, &edit, err));
    TRY(scim_site_open(request, pg, ACTION_SCIM_GROUP, &site, err));
    scim_group_change_init(&change, &site.client, is_new ? NULL : &id, &edit, raises(&site));
    TRY(record(request, &change, err));
    if (request->response != NULL) return SUCCESS;
    return answer_group(request, &site, &change.id, is_new ? 201 : 200, err);
}

static struct result handle_delete(struct request *request, struct pg *pg, struct error *err)
{
    struct scim_group_change change;
    OWNED_SITE site = {0};
    struct uuid id;

    TRY(scim_id(request, "Group", &id, err));
    TRY(scim_site_open(request, pg, ACTION_SCIM_GROUP, &site, err));
    scim_group_change_init(&change, &site.client, &id, NULL, raises(&site));
    TRY(record(request, &change, err));
    if (request->response == NULL) response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_scim_group_show = {.handle = handle_show};
const struct handler handler_scim_group_list = {.handle = handle_list};
const struct handler handler_scim_group_write = {.handle = handle_write};
const struct handler handler_scim_group_delete = {.handle = handle_delete};
