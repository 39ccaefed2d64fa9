/*
 * authz/scim_group.h -- the rows of groups that a SCIM service provisions (docs/scim.md), and the changes of them.
 *
 * A group gives nothing by itself: signed documents with the claim "scim" give roles to its id, or to its externalId. Rule: a permit for scim.look or scim.group.
 * Connections need scim_group_table.
 */
#pragma once

#include "authz/scim_user.h"
#include "scim/group.h"

extern const struct pg_table scim_group_table;

#define SCIM_GROUPS_MAX 10000 /* of a service */

struct scim_group_row {
    struct uuid id;
    char external_id[SCIM_EXTERNAL_MAX + 1]; /* "": none */
    char display_name[SCIM_NAME_MAX + 1];
    int64_t version, created_ms, modified_ms;
};

/** ERROR_NOT_FOUND. */
RESULT scim_group_find(const struct permit *permit, const struct scim_look *look, const struct uuid *id,
                       struct scim_group_row *row_out, struct error *err) __attribute__((nonnull));
/** NULL: any. */
struct scim_group_query {
    const char *issuer;
    const struct uuid *id, *member;
    const char *external_id, *display_name; /* the name in any case */
    int64_t first;                          /* from 0 */
    size_t limit;                           /* at most SCIM_PAGE_MAX */
};
struct scim_group_page {
    int64_t total;
    size_t count;
    struct scim_group_row rows[SCIM_PAGE_MAX];
};
RESULT scim_group_list(const struct permit *permit, struct pg *pg, const struct scim_group_query *query,
                       struct scim_group_page *page, struct error *err) __attribute__((nonnull));
/** Appends the members, as SCIM shows them, to a list of JSON; they are at most SCIM_MEMBERS_MAX. */
RESULT scim_group_members(const struct permit *permit, const struct scim_look *look, const struct uuid *id, json_t *list,
                          struct error *err) __attribute__((nonnull));

#define SCIM_GROUP_DETAIL_SIZE 192 /* an id, and two digests of its members (audit/format/scim_state.h) */
/** Under scim.group. */
struct scim_group_change {
    struct change change; /* points into this struct: don't copy it */
    struct scim_client client;
    const struct scim_group_edit *edit; /* NULL: the group is deleted */
    bool is_new;
    struct uuid id;
    int64_t if_version; /* 0: whatever it is */
    bool is_other;      /* the version is another one: the change has failed */
    char detail[SCIM_GROUP_DETAIL_SIZE];
};
/**
 * `id` NULL: a new group. ERROR_NOT_FOUND; ERROR_CONFLICT: see is_other, or the externalId is there; ERROR_INVALID: a member is no User of the service;
 * ERROR_LIMIT. `raises`: whether groups of SCIM have roles at all.
 */
void scim_group_change_init(struct scim_group_change *change, const struct scim_client *client, const struct uuid *id,
                            const struct scim_group_edit *edit, bool raises);
