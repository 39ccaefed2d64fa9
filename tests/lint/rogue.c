/*
 * tests/lint/rogue.c -- a handler that does what nobody decided. tests/lint/rogue.py compiles it as a file of gateway/: with CASE_PERMITTED
 * it must compile, with any other case it must not.
 */
#include "audit/query.h"
#include "authz/binding.h"
#include "authz/robot.h"
#include "authz/trusted_issuer.h"
#include "documents/draft.h"
#include "gateway/pipeline/request.h"
#include "registry/jobs/job.h"
#include "registry/stored_blob.h"
#include "registry/stored_manifest.h"
#include "registry/tag.h"
#include "registry/upload/upload.h"

struct result rogue(struct request *request, struct pg *pg, struct lookup *lookup, struct error *err);
struct result rogue_of_lists(struct request *request, struct pg *pg, struct lookup *lookup, struct error *err);
struct result rogue_as_another(struct request *request, const struct uuid *id, struct change *change, struct error *err);

static struct result visit(void *context, const struct drafted_document *drafted, struct error *err)
{
    (void)context, (void)drafted, (void)err;
    return SUCCESS;
}

struct result rogue(struct request *request, struct pg *pg, struct lookup *lookup, struct error *err)
{
    const struct tag_query query = {.where = &request->pairs[0].resource, .last = "", .limit = 1};
    const struct uuid nobody = {{0}};
    struct binding_create create;
    struct binding_page bindings;
    struct robot_identity robot;
    struct tag_page *page = NULL;

    binding_create_init(&create, &(struct authz_binding){.kind = PRINCIPAL_ROBOT}, 1);
#if defined(CASE_PERMITTED)
    const struct permit *permit = request->permit;
    TRY(robot_resolve(lookup, "robot$acme+ci", &robot, err));
    TRY(binding_insert(permit, pg, &create, err));
    TRY(binding_list(permit, pg, &nobody, 1, &bindings, err));
    return tag_list(permit, pg, &query, &page, err);
#elif defined(CASE_STATEMENT_BY_NAME)
    return pg_run(pg, "tag_delete", NULL, NULL, err);
#elif defined(CASE_STATEMENT_OF_ANOTHER_FILE)
    return pg_run(pg, &tag_delete_sql, NULL, NULL, err);
#elif defined(CASE_STATEMENT_OF_A_TABLE)
    return pg_run(pg, tag_statements.statements[0], NULL, NULL, err);
#elif defined(CASE_STATEMENT_MADE_UP)
    const struct pg_statement statement = {"tag_delete", "DELETE FROM tag", "", ""};
    return pg_run(pg, &statement, NULL, NULL, err);
#elif defined(CASE_BINDING_WITHOUT_PERMIT)
    return binding_insert(pg, &create, err);
#elif defined(CASE_TAGS_WITHOUT_PERMIT)
    return tag_list(pg, &query, &page, err);
#elif defined(CASE_NULL_FOR_PERMIT)
    return tag_list(NULL, pg, &query, &page, err);
#elif defined(CASE_NULL_FOR_PERMIT_OF_BINDINGS)
    return binding_list(NULL, pg, &nobody, 1, &bindings, err);
#elif defined(CASE_CHANGE_WITHOUT_PERMIT)
    return create.change.run(&create.change, pg, err);
#elif defined(CASE_CHANGE_WITH_NULL_FOR_PERMIT)
    return create.change.run(NULL, &create.change, pg, err);
#elif defined(CASE_PERMIT_MADE_UP)
    const struct permit permit = {0};
    return tag_list(&permit, pg, &query, &page, err);
#elif defined(CASE_PERMIT_OF_A_JOB)
    struct permit *permit = NULL;
    TRY(permit_for_job(request->gateway->sequencer, &request->pairs[0], &permit, err));
    return tag_list(permit, pg, &query, &page, err);
#elif defined(CASE_LOOKUP_AS_CONNECTION)
    return tag_list(request->permit, lookup, &query, &page, err);
#else
    return SUCCESS;
#endif
}

struct result rogue_of_lists(struct request *request, struct pg *pg, struct lookup *lookup, struct error *err)
{
    const struct document_draft_query drafts = {ACTION_KEY_READ, DOCUMENT_SIGNING_KEY, "acme", NULL};
    const struct uuid nobody = {{0}};
    const struct job_page asked = {.limit = 1};
    const struct audit_filter filter = {.until = INT64_MAX, .limit = 1};
    struct audit_page *events = NULL;
    struct robot_revoke revoke;
    struct issuer_page issuers;
    struct job *jobs = NULL;
    size_t count = 0;

    robot_revoke_init(&revoke, &nobody, &nobody, &(struct principal){.kind = PRINCIPAL_SYSTEM});
#if defined(CASE_PERMITTED)
    const struct permit *permit = request->permit;
    TRY(issuer_list(permit, pg, "", 1, &issuers, err));
    TRY(audit_list(permit, pg, &filter, &events, err));
    TRY(document_draft_visit(permit, pg, &drafts, visit, &count, err));
    TRY(job_list(permit, pg, &asked, &jobs, &count, err));
    return revoke.change.run(permit, &revoke.change, pg, err);
#elif defined(CASE_ISSUERS_WITHOUT_PERMIT)
    return issuer_list(pg, "", 1, &issuers, err);
#elif defined(CASE_ROBOT_REVOKED_WITH_NULL)
    return revoke.change.run(NULL, &revoke.change, pg, err);
#elif defined(CASE_LOG_WITHOUT_PERMIT)
    return audit_list(pg, &filter, &events, err);
#elif defined(CASE_LOG_WITH_NULL)
    return audit_list(NULL, pg, &filter, &events, err);
#elif defined(CASE_NULL_IN_A_VARIABLE)
    const struct permit *permit = NULL;
    return audit_list(permit, pg, &filter, &events, err);
#elif defined(CASE_SERVER_CLEANS_UP)
    return registry_clean_up(request->gateway->registry, pg, &count, err);
#elif defined(CASE_DRAFTS_WITHOUT_PERMIT)
    return document_draft_visit(pg, &drafts, visit, &count, err);
#elif defined(CASE_JOBS_WITH_NULL)
    return job_list(NULL, pg, &asked, &jobs, &count, err);
#elif defined(CASE_JOBS_WITH_A_LOOKUP)
    return job_list(request->permit, lookup, &asked, &jobs, &count, err);
#else
    return SUCCESS;
#endif
}

struct result rogue_as_another(struct request *request, const struct uuid *id, struct change *change, struct error *err)
{
#if defined(CASE_PRINCIPAL_CHANGED)
    request->principal->id = *id;
#else
    (void)id;
#endif
    return request_record_instead(request, request->pairs, 1, change, err);
}
