/* authz/snapshot_priv.h -- the layout of a snapshot; for authz/snapshot*.c only. */
#pragma once

#include "authz/rights_part_priv.h"
#include "authz/snapshot_load.h"

/** Issuers change rarely and parsing keys is slow, so snapshots share them as they share parts. */
struct issuer_list {
    atomic_uint owners;
    struct issuer **issuers;
    size_t count, bad_count;
    struct index_table by_url, by_digest; /* entry: number in `issuers` */
};

/** Shared by snapshots whose parts have the same robots, in the same order. */
struct robot_index {
    atomic_uint owners;
    struct index_table by_id, by_name; /* entry: number of the part << 32 | of the robot in it */
};

struct authz_snapshot {
    atomic_uint owners;
    struct authz_snapshot *self; /* lets a holder of a const pointer add an owner */
    struct rights_part **parts;  /* sorted by organisation; the first is the registry's, which always exists */
    size_t part_count;
    struct issuer_list *issuers;
    struct trust_rules *rules;
    struct scim_persons *persons;
    struct robot_index *robots;
};

/** The part of an organisation (nil: of the registry); NULL if it has neither robots nor bindings. */
const struct rights_part *snapshot_part(const struct authz_snapshot *snapshot, const struct uuid *organisation);

/** Iterates over the registry's part and the organisation's, if it has one. Begin with *at = 0; false at the end. */
bool snapshot_next_part(const struct authz_snapshot *snapshot, const struct uuid *organisation, unsigned *at,
                        const struct rights_part **part_out);

/** Shares the issuers of `before` (NULL: none) that the rows still describe. */
RESULT issuer_list_new(const struct authz_parts *parts, const struct issuer_list *before, struct issuer_list **list_out,
                       struct error *err);
/** By its exact URL, or by issuer_digest(); NULL if there is none. */
const struct issuer *issuer_list_find(const struct issuer_list *list, const char *url);
const struct issuer *issuer_list_find_digest(const struct issuer_list *list, struct bytes digest);
void issuer_list_free(struct issuer_list *list);
DEFINE_OWNED(issuer_list);

/** What a snapshot shares with others; NULL: none, except for the issuers. */
struct snapshot_shared {
    struct issuer_list *issuers;
    const struct trust_rules *rules;
    const struct scim_persons *persons;
    struct robot_index *robots; /* NULL: it is made */
};
/**
 * Takes ownership of the parts, also on failure, and adds an owner to all that is shared. The parts are sorted and begin with the registry's.
 */
RESULT snapshot_assemble(struct rights_part **parts, size_t count, const struct snapshot_shared *shared,
                         struct authz_snapshot **snapshot_out, struct error *err);

/** Takes the parts of `before` (NULL: none), except those of the organisations in `change`, which it makes from `rows`. */
RESULT snapshot_build(const struct authz_snapshot *before, const struct rights_change *change, const struct authz_parts *rows,
                      struct authz_snapshot **snapshot_out, struct error *err);

/** Whether the organisation is one of those that are read again as a whole. */
bool rights_have_changed(const struct rights_change *change, const struct uuid *organisation);

/** The snapshot after these changes of single roles; it sorts them. All else is as in `before`, and shared with it. */
RESULT snapshot_patch(const struct authz_snapshot *before, struct binding_change *changes, size_t count,
                      struct authz_snapshot **snapshot_out, struct error *err);

/** Reads the changed organisations, of which there is at least one (snapshot_store.c). */
RESULT snapshot_renew_parts(struct pg *pg, const struct authz_snapshot *before, const struct rights_change *change,
                            struct authz_snapshot **snapshot_out, struct error *err);
/**
 * The roles that were given or taken since the epoch, at most RIGHTS_BINDINGS_MAX + 1, and whether one is gone. With is_alone there is no row if anything else has
 * changed, and each has the present epoch in column BINDING_WIDTH + 1.
 */
RESULT snapshot_load_changes(struct pg *pg, uint64_t since, bool is_alone, struct pg_rows **rows_out, struct error *err);
bool snapshot_row_is_gone(const struct pg_rows *rows, size_t row);

/** A snapshot of these rows alone, which are sorted by organisation, with the issuers of `like`; the issuers of `rows` don't count. */
RESULT snapshot_of_rows(const struct authz_snapshot *like, const struct authz_parts *rows, struct authz_snapshot **snapshot_out,
                        struct error *err);

/** Whether the binding's scope contains the resource. */
bool binding_covers(const struct authz_binding *binding, const struct resource *resource);
/** Whether the binding's scope is inside the resource: then its holder may know that the resource exists. */
bool binding_is_inside(const struct authz_binding *binding, const struct resource *resource);
/** The kind of its scope, by its project, organisation and pattern. */
enum resource_kind binding_scope(const struct authz_binding *binding);
bool binding_is_live(const struct authz_binding *binding, int64_t now_ms);
/** As binding_is_live(), also if the document of its role does not count now: it may count again. */
bool binding_is_kept(const struct authz_binding *binding, int64_t now_ms);
/** Whether its role may be bound on a scope of this kind. */
bool binding_allows_scope(const struct authz_binding *binding, enum resource_kind scope);
/** Whether holders of the built-in role may grant the role of this binding. */
bool binding_may_be_granted(enum role held, const struct authz_binding *binding);
/** Whether both bindings are of the same principal. */
bool binding_same_principal(const struct authz_binding *a, const struct authz_binding *b);

/** A broken rule of granting, rotating or revoking; a function below returns NULL if no rule is broken. */
struct authz_refusal {
    const char *rule, *message;
};
/**
 * For a rotation: the principal that sees the new secret can act as the robot, so it must be allowed to grant each
 * role that the robot has.
 */
const struct authz_refusal *rotation_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                             const struct resource *resource, int64_t now_ms);
const struct authz_refusal *grant_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                          enum role held, const struct resource *resource, int64_t now_ms);
/** Once documents of officers are demanded: for an action that would end the last registry-admin that counts, or the last security officer of a place that another person has
 *  appointed (officer_guard.c). */
const struct authz_refusal *last_officer_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                                 enum action action, const struct resource *resource, int64_t now_ms);
