/*
 * gateway/api/scim_priv.h -- what the handlers of /scim/v2 share (docs/scim.md): whose service it is, and the form of answers (RFC 7644).
 */
#pragma once

#include "authz/scim_group.h"
#include "gateway/api/api_priv.h"

#define SCIM_TYPE "application/scim+json"
#define SCIM_PATH "/scim/v2"

/** The service that names the caller as its client. Rule: after a decision that allows an action of FOR_PROVISIONERS. */
struct scim_site {
    struct authz_snapshot *snapshot;
    const struct scim_entry *entry;
    struct scim_client client;
    struct search_source source;
    struct scim_look look;
};
/** ERROR_DENIED: the document has ended meanwhile. scim_site_done() in any case. */
RESULT scim_site_open(const struct request *request, struct pg *pg, enum action action, struct scim_site *site,
                      struct error *err);
void scim_site_done(struct scim_site *site);
#define OWNED_SITE __attribute__((cleanup(scim_site_done))) struct scim_site

/** Adds the pair; the id of the path is its detail. 404 for a path that is no id. */
void scim_pair(struct request *request, enum action action);
/** The id in the path. ERROR_NOT_FOUND. */
RESULT scim_id(const struct request *request, const char *what, struct uuid *id_out, struct error *err);

/** 0: no condition; -1: one that no version fulfils. */
int64_t scim_if_match(const struct request *request);

/** Adds meta, and takes away what `attributes` and `excludedAttributes` leave out. */
struct scim_meta {
    const char *type, *place; /* "User", "Users" */
    const struct uuid *id;
    int64_t created_ms, modified_ms, version;
};
RESULT scim_finish(const struct request *request, const struct scim_meta *meta, json_t *resource, struct error *err);
/** Whether a top-level attribute is wanted. */
bool scim_wants(const struct request *request, const char *attribute);
/** Answers with the resource, its ETag, and with 201 its Location. With a fitting If-None-Match 304. */
RESULT scim_answer(struct request *request, unsigned status, const struct scim_meta *meta, const json_t *resource,
                   struct error *err);

/** A page of a list, from 1. */
struct scim_page {
    int64_t first; /* from 0 */
    size_t limit;
};
/** startIndex and count. ERROR_INVALID. */
RESULT scim_page_read(const struct request *request, struct scim_page *page_out, struct error *err);
/** Takes over the list. */
RESULT scim_answer_list(struct request *request, const struct scim_page *page, int64_t total, json_t *list, struct error *err);
/** A body of the type of SCIM. */
RESULT scim_answer_json(struct request *request, unsigned status, const json_t *value, struct error *err);
/** ?filter; *has_out false: there is none. */
RESULT scim_filter_of(const struct request *request, struct scim_filter *filter_out, bool *has_out, struct error *err);

/** 412 for a condition that failed; the failure itself for all others. */
RESULT scim_refuse(struct request *request, bool is_other, const struct error *why, struct error *err);
