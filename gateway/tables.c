#include "gateway/tables.h"

#include "audit/archive.h"
#include "audit/cosigned.h"
#include "audit/erasure.h"
#include "audit/kept_answer.h"
#include "audit/log_key_jobs.h"
#include "audit/published.h"
#include "audit/query.h"
#include "audit/saved_search.h"
#include "audit/search.h"
#include "audit/sequencer.h"
#include "audit/subject_rewrap.h"
#include "authz/binding.h"
#include "authz/break_glass.h"
#include "authz/dpop_spent.h"
#include "authz/elevation.h"
#include "authz/erased_subject.h"
#include "authz/group_login.h"
#include "authz/issuer_jobs.h"
#include "authz/robot.h"
#include "authz/scim_group.h"
#include "authz/snapshot.h"
#include "authz/trust_rule.h"
#include "authz/trusted_issuer.h"
#include "delivery/sink.h"
#include "detection/detective.h"
#include "documents/change.h"
#include "documents/invitation.h"
#include "planning/plan_make.h"
#include "policy/decider/set_load.h"
#include "registry/brought_label.h"
#include "registry/content_hold.h"
#include "registry/copies/copies.h"
#include "registry/copies/placement.h"
#include "registry/held_checkpoint.h"
#include "registry/held_manifest.h"
#include "registry/jobs/statements.h"
#include "registry/region.h"
#include "registry/registry.h"
#include "registry/upload/upload.h"
#include "training/budget.h"
#include "training/checkpoint.h"
#include "training/content.h"
#include "training/label_stated.h"
#include "training/lease.h"
#include "training/log.h"
#include "training/order_jobs.h"
#include "training/result.h"

const struct pg_table *const gateway_tables[] = {
    &binding_table,
    &trusted_issuer_table,
    &issuer_renew_table,
    &trust_rule_table,
    &group_login_table,
    &break_glass_table,
    &elevation_table,
    &dpop_spent_table,
    &scim_user_table,
    &scim_change_table,
    &scim_group_table,
    &robot_table,
    &rights_table,
    &robot_rotate_table,
    &project_statements,
    &region_state_statements,
    &repository_statements,
    &seal_statements,
    &stored_blob_statements,
    &upload_statements,
    &abandoned_statements,
    &copy_place_statements,
    &copying_statements,
    &copy_home_statements,
    &placement_statements,
    &upload_admin_statements,
    &stored_manifest_statements,
    &tag_statements,
    &advisory_lock_statements,
    &job_statements,
    &scrub_statements,
    &rewrap_statements,
    &forgotten_statements,
    &manifest_use_statements,
    &region_store_table,
    &quota_statements,
    &rules_statements,
    &collect_statements,
    &erase_statements,
    &erased_statements,
    &policy_set_table,
    &document_table,
    &invitation_table,
    &audit_query_table,
    &audit_tree_table,
    &published_table,
    &cosigned_table,
    &log_key_table,
    &audit_search_table,
    &audit_subject_table,
    &sink_table,
    &detection_table,
    &audit_erasure_table,
    &audit_rewrap_table,
    &audit_saved_table,
    &kept_answer_table,
    &erased_subject_table,
    &audit_archive_table,
    &audit_check_table,
    &run_table,
    &run_doubt_table,
    &run_lease_table,
    &run_claim_table,
    &run_session_table,
    &run_budget_table,
    &brought_label_statements,
    &content_hold_statements,
    &run_queue_table,
    &run_offer_table,
    &run_draft_table,
    &run_result_table,
    &held_manifest_statements,
    &held_checkpoint_statements,
    &run_checkpoint_table,
    &run_content_table,
    &run_stated_table,
    &run_log_table,
    &plan_table,
    NULL,
};
_Static_assert(sizeof gateway_tables / sizeof gateway_tables[0] - 1 <= SEQUENCER_TABLES_MAX,
               "the sequencer prepares all of them");
