#include "documents/format/scim_service.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"
#include "base/uuid.h"
#include "documents/format/document_priv.h"

#define DAY_MS ((int64_t)86400000)
#define ROBOT  "robot:"

/* Claims that an issuer gives to another person, or changes: a mail address, a name. */
static const char *const changing[] = {
    "email",       "mail",     "emails",    "email_address", "emailaddress", "mailnickname", "preferred_username", "upn",
    "unique_name", "username", "user_name", "name",          "nickname",     "given_name",   "family_name",        "phone_number",
    "login",       "aud",      "iss",       "jti",           "azp",          "client_id"};

/* The length of a pointer without the indexes of lists at its end. */
static size_t without_indexes(const char *claim)
{
    size_t end = strlen(claim);

    for (;;) {
        const char *last = memrchr(claim, '/', end); /* a pointer begins with one */
        const size_t before = (size_t)(last - claim);
        if (before == 0 || strspn(last + 1, "0123456789") < end - before - 1) return end;
        end = before;
    }
}

/* Whether the claim has this name, in any case: in a list, too ("/emails/0"), and as the end of a URL ("/https:~1~1bank.example~1email"). */
static bool is_named(const char *claim, const char *name)
{
    const size_t end = without_indexes(claim), length = strlen(name);

    if (end <= length || strncasecmp(claim + end - length, name, length) != 0) return false;
    const char *before = claim + end - length - 1;
    return *before == '/' || *before == ':' || (before > claim && strncmp(before - 1, "~1", 2) == 0);
}

static struct result check_head(const struct document *document, struct error *err)
{
    if (strlen(document->name) > SCIM_SERVICE_NAME_MAX)
        return failure(err, ERROR_INVALID, "the name of a SCIM service has at most %d characters", SCIM_SERVICE_NAME_MAX);
    if (document->scope[0] != '\0') return failure(err, ERROR_INVALID, "a SCIM service is of the registry: its scope is \"\"");
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > SCIM_SERVICE_DAYS_MAX * DAY_MS)
        return failure(err, ERROR_INVALID, "a SCIM service expires, within %d days", SCIM_SERVICE_DAYS_MAX);
    return SUCCESS;
}

static struct result check_claim(const char *claim, struct error *err)
{
    if (!claim_pointer_is_valid(claim)) return failure(err, ERROR_INVALID, "claim: a JSON Pointer, such as /sub");
    for (size_t i = 0; i < sizeof changing / sizeof changing[0]; i++)
        if (is_named(claim, changing[i]))
            return failure(
                err, ERROR_INVALID,
                "claim: %s may change, or be given to another person; name the claim with the immutable id, such as /sub or /oid",
                claim);
    return SUCCESS;
}

static struct result check_client(const char *client, struct error *err)
{
    struct uuid id;

    if (strncmp(client, ROBOT, sizeof ROBOT - 1) == 0 && uuid_parse(bytes_of_text(client + sizeof ROBOT - 1), &id))
        return SUCCESS;
    return failure(err, ERROR_INVALID, "client: the robot that provisions, as \"robot:ID\"");
}

/* The members of a body, as json_unpack_ex() returns them. */
struct body {
    const char *others;
    json_int_t ends;
};

static struct result unpack(const struct document *document, struct scim_service *service, struct body *body, struct error *err)
{
    return document_unpack(json_object_get(document->json, "body"), "the body of a SCIM service", err,
                           "{s:s, s:s, s:s, s:I, s?:s}", "issuer", &service->issuer, "claim", &service->claim, "client",
                           &service->client, "deactivations", &body->ends, "others", &body->others);
}

struct result scim_service_read(const struct document *document, struct scim_service *service_out, struct error *err)
{
    struct scim_service service = {0};
    struct body body = {.others = "refuse"};

    TRY(check_head(document, err));
    TRY(unpack(document, &service, &body, err));
    TRY(document_check_issuer(service.issuer, err));
    TRY(check_claim(service.claim, err));
    TRY(check_client(service.client, err));
    if (body.ends < 1 || body.ends > SCIM_ENDS_MAX)
        return failure(err, ERROR_INVALID, "deactivations: how many persons may be deactivated within an hour, 1 to %d",
                       SCIM_ENDS_MAX);
    if (strcmp(body.others, "refuse") != 0 && strcmp(body.others, "admit") != 0)
        return failure(err, ERROR_INVALID, "others: \"refuse\" or \"admit\" persons of the issuer that were never provisioned");
    service.ends_in_hour = body.ends;
    service.admits_others = strcmp(body.others, "admit") == 0;
    *service_out = service;
    return SUCCESS;
}

struct result document_check_scim_service(const struct document *document, const struct document_trust *trust, struct error *err)
{
    struct scim_service service;

    if (document->is_withdrawn) {
        TRY(check_head(document, err));
        TRY(document_check_empty(document, "a SCIM service", err));
    } else {
        TRY(scim_service_read(document, &service, err));
    }
    return document_check_persons(document, trust, "a SCIM service", err);
}
