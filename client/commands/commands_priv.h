/*
 * client/commands/commands_priv.h -- the functions behind the table of commands.
 */
#pragma once

#include <jansson.h>

#include "client/commands/command.h"
#include "client/session.h"

/** What sessions of the invocation report to, as its options say. */
struct report *invocation_report(struct invocation *invocation);
/** With the login that is kept for the host. Logs nothing in yet: the first call fetches a token. */
RESULT command_session(struct invocation *invocation, const char *host, struct session **session_out, struct error *err);

RESULT command_login(struct invocation *invocation, struct error *err);
RESULT command_logout(struct invocation *invocation, struct error *err);
RESULT command_whoami(struct invocation *invocation, struct error *err);
RESULT command_push(struct invocation *invocation, struct error *err);
RESULT command_pull(struct invocation *invocation, struct error *err);
RESULT command_tags(struct invocation *invocation, struct error *err);
RESULT command_list(struct invocation *invocation, struct error *err);
RESULT command_inspect(struct invocation *invocation, struct error *err);
RESULT command_tag(struct invocation *invocation, struct error *err);
RESULT command_copy(struct invocation *invocation, struct error *err);
RESULT command_delete(struct invocation *invocation, struct error *err);
RESULT command_audit_tail(struct invocation *invocation, struct error *err);
RESULT command_audit_proof(struct invocation *invocation, struct error *err);
RESULT command_audit_key(struct invocation *invocation, struct error *err);
RESULT command_audit_show(struct invocation *invocation, struct error *err);
RESULT command_organisation_create(struct invocation *invocation, struct error *err);
RESULT command_organisation_delete(struct invocation *invocation, struct error *err);
RESULT command_project_delete(struct invocation *invocation, struct error *err);
RESULT command_repository_delete(struct invocation *invocation, struct error *err);
RESULT command_project_create(struct invocation *invocation, struct error *err);
RESULT command_project_list(struct invocation *invocation, struct error *err);
RESULT command_project_quota(struct invocation *invocation, struct error *err);
RESULT command_project_rules(struct invocation *invocation, struct error *err);
RESULT command_uploads_list(struct invocation *invocation, struct error *err);
RESULT command_uploads_cancel(struct invocation *invocation, struct error *err);
RESULT command_gc(struct invocation *invocation, struct error *err);
RESULT command_project_label(struct invocation *invocation, struct error *err);
RESULT command_robot_create(struct invocation *invocation, struct error *err);
RESULT command_robot_list(struct invocation *invocation, struct error *err);
RESULT command_robot_rotate(struct invocation *invocation, struct error *err);
RESULT command_robot_revoke(struct invocation *invocation, struct error *err);
RESULT command_binding_create(struct invocation *invocation, struct error *err);
RESULT command_binding_list(struct invocation *invocation, struct error *err);
RESULT command_binding_revoke(struct invocation *invocation, struct error *err);
RESULT command_organisation_list(struct invocation *invocation, struct error *err);
RESULT command_project_show(struct invocation *invocation, struct error *err);
RESULT command_issuer_trust(struct invocation *invocation, struct error *err);
RESULT command_issuer_list(struct invocation *invocation, struct error *err);
RESULT command_issuer_remove(struct invocation *invocation, struct error *err);
/** A warning if no trusted issuer has this URL; nothing if the caller may not see which there are. */
void issuer_warn(struct session *session, const char *url);
RESULT command_scrub(struct invocation *invocation, struct error *err);
RESULT command_rewrap(struct invocation *invocation, struct error *err);
/** Begins a job and, without --detach, follows it to its end. `project`: of which it is looked at, or NULL. */
RESULT job_begin(struct invocation *invocation, const char *path, const char *project, const json_t *body, struct error *err);
RESULT command_job_list(struct invocation *invocation, struct error *err);
RESULT command_job_show(struct invocation *invocation, struct error *err);
RESULT command_job_findings(struct invocation *invocation, struct error *err);
RESULT command_job_stop(struct invocation *invocation, struct error *err);
RESULT command_deletion_certificate(struct invocation *invocation, struct error *err);
RESULT command_keys(struct invocation *invocation, struct error *err);
RESULT command_region_list(struct invocation *invocation, struct error *err);
RESULT command_policy_show(struct invocation *invocation, struct error *err);
RESULT command_policy_sign(struct invocation *invocation, struct error *err);
RESULT command_policy_load(struct invocation *invocation, struct error *err);
