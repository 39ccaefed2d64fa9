/* authz/trust_rules_priv.h -- the inside of a list of signed documents that give roles. */
#pragma once

#include "authz/break_glass_entry.h"
#include "authz/group_entry.h"
#include "authz/officer_entry.h"
#include "authz/own_role_entry.h"
#include "authz/persons_entry.h"
#include "authz/restriction_entry.h"
#include "authz/rights_part_priv.h"
#include "authz/scim_entry.h"

/* What a list has of one kind of documents. */
struct trust_rules_kind {
    struct document_pin pin;
    bool is_sound; /* the database agrees with sijil-keyd's pin: only then these documents count */
};

struct trust_rules {
    atomic_uint owners;
    struct trust_rules *self;                           /* lets a holder of a const pointer add an owner */
    struct trust_rules_kind kinds[DOCUMENT_KIND_COUNT]; /* of those that trust_rules.c lists */
    uint64_t officers_pinned;         /* the event of the newest officer that sijil-keyd has pinned, whatever the database has */
    atomic_uint_least64_t read_until; /* of the trust rules; rises while they stay the same */
    struct trust_entry *entries;      /* by issuer, then the highest priority first */
    size_t count, capacity;
    struct index_table by_key;
    struct group_entry *groups; /* NULL: none */
    size_t group_count;
    struct persons_entry *persons; /* NULL: none */
    size_t persons_count;
    bool persons_are_partial; /* one that is in force is missing */
    struct scim_entry services[SCIM_ENTRIES_MAX];
    size_t service_count;
    struct glass_entry *glasses; /* NULL: none */
    size_t glass_count;
    struct own_role_entry *own_roles; /* by name; NULL: none */
    size_t own_role_count;
    struct officer_entry *officers; /* NULL: none */
    size_t officer_count, officers_in_force;
    struct restriction_entry *restrictions; /* by organisation and name; NULL: none */
    size_t restriction_count, restriction_capacity;
    bool officers_are_demanded; /* a registry-admin has, or had, a document */
};

/** It has a reference to the JSON of the document. */
struct pinned_entry pinned_entry_of(const struct pinned_document *pinned);
/** Adds a document of the kind group-roles: a visitor of documents. */
RESULT group_entries_add(void *rules, const struct pinned_document *pinned, struct error *err);
void group_entries_free(struct trust_rules *rules);
/** The same for the kind persons. */
RESULT persons_entries_add(void *rules, const struct pinned_document *pinned, struct error *err);
void persons_entries_free(struct trust_rules *rules);
/** The same for SCIM services. */
RESULT scim_entries_add(void *rules, const struct pinned_document *pinned, struct error *err);
void scim_entries_free(struct trust_rules *rules);
/** The same for broken glasses. */
RESULT glass_entries_add(void *rules, const struct pinned_document *pinned, struct error *err);
void glass_entries_free(struct trust_rules *rules);
/** The same for roles of an organisation's own; and sorts them, once all are there. */
RESULT own_role_entries_add(void *rules, const struct pinned_document *pinned, struct error *err);
void own_role_entries_sort(struct trust_rules *rules);
void own_role_entries_free(struct trust_rules *rules);
/** The same for officers; and, after these, for the keys of persons. */
RESULT officer_entries_add(void *rules, const struct pinned_document *pinned, struct error *err);
RESULT officer_entries_note_key(void *rules, const struct pinned_document *pinned, struct error *err);
void officer_entries_free(struct trust_rules *rules);
/** The same for restrictions of organisations. */
RESULT restriction_entries_add(void *rules, const struct pinned_document *pinned, struct error *err);
void restriction_entries_free(struct trust_rules *rules);
