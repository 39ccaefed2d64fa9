/*
 * gateway/pipeline/handler.h -- what somebody who writes a handler has to know.
 *
 * A handler returns success and has made an answer (gateway/pipeline/response.h), or returns a failure, which becomes the
 * answer by one table (gateway/pipeline/failure.c), or makes a precise error answer and returns success. It runs on a worker
 * whose database connection it may use until it returns. It must not keep anything outside the arena that
 * `release` does not free.
 *
 * Who has to wait for something that nobody tells gives the worker back: request_wait().
 */
#pragma once

#include "gateway/pipeline/request.h"
#include "gateway/pipeline/response.h"
#include "storage/lookup.h"
#include "storage/pg.h"

/**
 * Fills request->pairs (one to four) from name, reference, arguments and headers, and from the body if it was
 * gathered. Runs before the decision: it must reveal nothing, and makes an answer only for input that is malformed
 * whoever asks (400, 404 for a name that can't exist). gateway/pipeline/resolve.h gives ids and home region, and says what may be
 * looked up; the pipeline finds ids of repositories. Nothing is permitted yet, so there is no connection but a lookup, which tells
 * what a name stands for; NULL on an event thread.
 */
typedef RESULT route_target(struct request *request, struct lookup *lookup, struct error *err);

typedef RESULT handler_function(struct request *request, struct pg *pg, struct error *err);

/**
 * What can be had from memory is decided and answered without a worker: two thread hand-offs less. A handler that
 * sets `decides_at_once` says that its target may be called on an event thread, with lookup NULL, and again on a worker. `recall`, after the
 * record, is the same for the answer: false means that nothing was done, and `handle` is called on a worker.
 *
 * `instead`, of a request that is denied but not hidden: puts another pair, which the route lists, in the place of the first. If that
 * is allowed, it is what was asked; else the first denial stands.
 *
 * `search`, of routes that record first, gives what reads rows for the handler in the transaction of that record, which saves it
 * a round trip: once it is decided that the request is allowed, on the thread that decided, and again if the decision came too late. It
 * changes nothing. NULL, also for lack of memory: the handler reads them itself, as it does when the answer was lost.
 *
 * Routes without a streamed body have only `handle`. Routes with one have `begin`, `write`, `finish`, `cut`:
 *
 *   begin    after the decision, before the first byte is taken. If it makes an answer, or fails, the body is drained
 *            (up to the limit `drain_size`) and that is the answer; nothing else is called but `release`.
 *   write    with the next bytes, in order, at most 128 KiB; on a worker, never two at a time for one request. After
 *            a failure, or once it made an answer, the rest is drained.
 *   finish   the whole body was written; makes the answer.
 *   cut      the client went away or broke its promise; instead of finish. Keeps what is worth keeping.
 *   release  always, last, once the answer is sent or the connection is gone, also if only `search` was called; frees what the
 *            arena does not.
 */
struct handler {
    handler_function *handle;
    void (*instead)(struct request *request);
    struct change *(*search)(struct request *request);
    bool (*recall)(struct request *request);
    bool decides_at_once;
    bool is_long; /* its work grows with all that an organisation has: one at a time of each organisation */
    handler_function *begin;
    RESULT (*write)(struct request *request, struct pg *pg, struct bytes bytes, struct error *err);
    handler_function *finish;
    void (*cut)(struct request *request, struct pg *pg);
    void (*release)(struct request *request);
};

/* Handlers and targets are declared here, one line each, and defined in gateway/<topic>.c. */
extern const struct handler handler_alive, handler_ready, handler_metrics, handler_ping, handler_token_mint;
extern const struct handler handler_robot_create, handler_robot_list, handler_robot_revoke, handler_robot_rotate,
    handler_credential_read, handler_binding_create,
    handler_binding_list, handler_binding_revoke, handler_issuer_trust, handler_issuer_list, handler_issuer_remove;
extern const struct handler handler_upload_begin, handler_upload_write, handler_upload_commit, handler_upload_read,
    handler_upload_cancel, handler_upload_list, handler_upload_end, handler_blob_read, handler_blob_delete;
extern const struct handler handler_manifest_read, handler_manifest_push, handler_manifest_delete, handler_tag_list,
    handler_referrer_list, handler_catalog;
extern const struct handler handler_organisation_create, handler_organisation_list, handler_project_create,
    handler_project_list, handler_project_read, handler_label;
extern const struct handler handler_project_quota, handler_project_quota_read, handler_project_rules,
    handler_project_rules_read;
extern const struct handler handler_policy_read, handler_policy_load;
extern const struct handler handler_erase, handler_erase_plan;
extern const struct handler handler_scrub_start, handler_rewrap_start, handler_collection_start, handler_job_stop, handler_job_list,
    handler_job_read, handler_job_findings, handler_key_list, handler_region_list,
    handler_deletion_certify;
extern const struct handler handler_audit_list, handler_audit_event, handler_audit_entry, handler_audit_proof,
    handler_audit_checkpoint, handler_audit_key;

route_target target_system_ping, target_token_mint, target_audit_read;
route_target target_robot_create, target_robot_list, target_robot_revoke, target_robot_rotate, target_credential_read, target_binding_create, target_binding_list,
    target_binding_revoke, target_issuer_trust, target_issuer_list, target_issuer_remove;
route_target target_upload_begin, target_upload_write, target_upload_commit, target_upload_read, target_upload_cancel;
route_target target_upload_list, target_upload_list_whole, target_upload_end;
route_target target_blob_read, target_blob_delete, target_manifest_read, target_manifest_push, target_manifest_delete;
route_target target_tag_list, target_referrer_list, target_catalog;
route_target target_organisation_create, target_organisation_label, target_project_create, target_project_list,
    target_project_read, target_project_label, target_repository_label, target_project_quota, target_project_rules;
route_target target_policy_read, target_policy_load;
route_target target_erase, target_erase_plan;
route_target target_scrub_start, target_rewrap_start, target_collection_start, target_key_list, target_region_list, target_job_read, target_job_stop,
    target_deletion_certify;
