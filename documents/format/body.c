/* What a document says, without who has signed it: for those who show or record what others judge. */
#include "documents/format/audit_sink.h"
#include "documents/format/break_glass.h"
#include "documents/format/detection_rule.h"
#include "documents/format/group_roles.h"
#include "documents/format/officers.h"
#include "documents/format/own_role.h"
#include "documents/format/persons.h"
#include "documents/format/restriction.h"
#include "documents/format/scim_service.h"

struct result document_check_body(const struct document *document, struct error *err)
{
    union {
        struct audit_sink sink;
        struct detection_rule detection;
        struct group_roles groups;
        struct own_role role;
        struct persons_rule persons;
        const json_t *policy;
        struct officer officer;
        struct scim_service service;
        struct break_glass glass;
        struct break_glass_review review;
    } body;

    switch (document->kind) {
    case DOCUMENT_AUDIT_SINK: return audit_sink_read(document, &body.sink, err);
    case DOCUMENT_DETECTION_RULE: return detection_rule_read(document, &body.detection, err);
    case DOCUMENT_GROUP_ROLES: return group_roles_read(document, &body.groups, err);
    case DOCUMENT_OWN_ROLE: return own_role_read(document, &body.role, err);
    case DOCUMENT_PERSONS: return persons_rule_read(document, &body.persons, err);
    case DOCUMENT_RESTRICTION: return restriction_read(document, &body.policy, err);
    case DOCUMENT_OFFICERS: return officer_read(document, &body.officer, err);
    case DOCUMENT_SCIM_SERVICE: return scim_service_read(document, &body.service, err);
    case DOCUMENT_BREAK_GLASS: return break_glass_read(document, &body.glass, err);
    case DOCUMENT_BREAK_GLASS_REVIEW: return break_glass_review_read(document, &body.review, err);
    case DOCUMENT_POLICY_SET:
    case DOCUMENT_SIGNING_KEY:
    case DOCUMENT_RUNNER:
    case DOCUMENT_TRUST_RULE:
    case DOCUMENT_ERASURE:
    case DOCUMENT_LEGAL_HOLD:
    case DOCUMENT_KIND_COUNT: break;
    }
    return failure(err, ERROR_INVALID, "a document of this kind is read elsewhere");
}
