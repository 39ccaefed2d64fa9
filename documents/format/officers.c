#include "documents/format/officers.h"

#include <string.h>

#include "base/text.h"
#include "base/uuid.h"
#include "crypto/digest.h"
#include "documents/format/document_priv.h"
#include "documents/format/restriction.h"

#define DAY_MS        INT64_C(86400000)
#define NAME_LETTERS  "abcdefghijklmnopqrstuvwxyz0123456789._-"
#define PLACE_LETTERS NAME_LETTERS
#define HEX_DIGITS    "0123456789abcdef"

/* The roles that decide over others, and where each is. */
static const struct {
    const char *name;
    bool on_registry, on_organisation;
} roles[] = {{OFFICERS_ADMINISTRATORS, true, false}, {"org-admin", false, true}, {"security-officer", true, true}};

bool officer_document_is_of(const struct document *document, const char *role)
{
    const size_t length = strlen(role);

    return strncmp(document->name, role, length) == 0 && document->name[length] == '.';
}

static bool has_role_in_name(const struct document *document)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (officer_document_is_of(document, roles[i].name)) return document->name[strlen(roles[i].name) + 1] != '\0';
    return false;
}

static struct result check_head(const struct document *document, struct error *err)
{
    if (strlen(document->name) > OFFICERS_NAME_MAX || !text_consists_of(bytes_of_text(document->name), NAME_LETTERS) ||
        !has_role_in_name(document))
        return failure(
            err, ERROR_INVALID,
            "the name is the role, a dot and more, such as security-officer.alice, of at most %d small letters, digits, "
            "'.', '_' and '-'",
            OFFICERS_NAME_MAX);
    if (document->scope[0] != '\0')
        return failure(err, ERROR_INVALID, "officers are named by the registry: the scope is \"\", and \"on\" says where");
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > OFFICERS_DAYS_MAX * DAY_MS)
        return failure(err, ERROR_INVALID, "a document of officers expires, within %d days", OFFICERS_DAYS_MAX);
    return SUCCESS;
}

static bool is_principal(const char *text)
{
    struct uuid id;

    if (strncmp(text, "robot:", 6) == 0) return uuid_parse(bytes_of_text(text + 6), &id);
    return strlen(text) == 68 && strncmp(text, "ext:", 4) == 0 && text_consists_of(bytes_of_text(text + 4), HEX_DIGITS);
}

static bool is_thumbprint(const char *text)
{
    uint8_t digest[SHA256_SIZE];

    return text_from_base64_exactly(BASE64_URL, bytes_of_text(text), digest, sizeof digest);
}

static bool is_place(const char *on)
{
    return strlen(on) <= OFFICERS_PLACE_MAX && text_consists_of(bytes_of_text(on), PLACE_LETTERS);
}

static struct result check_role(const struct document *document, const struct officer *officer, struct error *err)
{
    if (!officer_document_is_of(document, officer->role))
        return failure(err, ERROR_INVALID, "role: the one with which the name begins");
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(roles[i].name, officer->role) == 0 &&
            (officer->on[0] == '\0' ? roles[i].on_registry : roles[i].on_organisation && is_place(officer->on)))
            return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "on: \"\" for a registry-admin, an organisation for an org-admin, either for a security-officer");
}

/* The number of persons is a security officer's document's, because only such officers sign. */
static struct result read_restrictions(const struct document *document, json_int_t restrictions, struct officer *officer,
                                       struct error *err)
{
    if (json_object_get(json_object_get(document->json, "body"), "restrictions") == NULL) return SUCCESS;
    if (restrictions < 1 || restrictions > RESTRICTION_PERSONS_MAX || officer->on[0] == '\0' ||
        strcmp(officer->role, RESTRICTION_ROLE) != 0)
        return failure(err, ERROR_INVALID,
                       "restrictions: 1 to %d persons, in the document of a security officer of an organisation",
                       RESTRICTION_PERSONS_MAX);
    officer->restrictions = (unsigned)restrictions;
    return SUCCESS;
}

struct result officer_read(const struct document *document, struct officer *officer_out, struct error *err)
{
    struct officer officer = {.principal = NULL};
    json_int_t restrictions = 0;

    TRY(check_head(document, err));
    TRY(document_unpack(json_object_get(document->json, "body"), "the body of officers", err, "{s:s, s:s, s:s, s:s, s?:I}",
                        "principal", &officer.principal, "key", &officer.key, "role", &officer.role, "on", &officer.on,
                        "restrictions", &restrictions));
    if (!is_principal(officer.principal))
        return failure(err, ERROR_INVALID, "principal: ext: and 64 hex digits, or robot: and an id, as sijil whoami shows it");
    if (!is_thumbprint(officer.key))
        return failure(err, ERROR_INVALID, "key: the name of an enrolled key of this principal, as sijil key list shows it");
    TRY(check_role(document, &officer, err));
    TRY(read_restrictions(document, restrictions, &officer, err));
    *officer_out = officer;
    return SUCCESS;
}

json_t *officer_body(const struct officer *officer)
{
    json_t *restrictions = officer->restrictions == 0 ? NULL : json_integer((json_int_t)officer->restrictions);

    return json_pack("{s:s, s:s, s:s, s:s, s:o*}", "principal", officer->principal, "key", officer->key, "role", officer->role,
                     "on", officer->on, "restrictions", restrictions);
}

/* Nobody is an approver of its own power. The root appoints the approvers, so it may sign alone, as long as it is one person. */
static struct result check_signers(const struct document *document, const struct document_trust *trust,
                                   const struct officer *officer, struct error *err)
{
    static const uint8_t no_key[ECDSA_PUBLIC_SIZE];
    uint8_t principal[DOCUMENT_DIGEST_SIZE];
    const struct document_own own = {no_key, principal};
    bool has_root = false;
    unsigned persons = 0;

    sha256_of(bytes_of_text(officer->principal), principal);
    TRY(document_check_time(document, trust->now_ms, err));
    TRY(document_is_signed_by(document, trust->root, &has_root, err));
    TRY(document_count_persons(document, trust, &own, &persons, err));
    if ((has_root && document_root_is_one(trust)) || persons >= document_signers_needed(document)) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "a document of officers needs the signatures of %u approvers other than the officer, or of the root, and there are %u",
        document_signers_needed(document), persons);
}

struct result document_check_officers(const struct document *document, const struct document_trust *trust, struct error *err)
{
    struct officer officer;

    if (document->is_withdrawn) {
        TRY(check_head(document, err));
        TRY(document_check_empty(document, "officers", err));
        return document_check_persons(document, trust, "a document of officers", err);
    }
    TRY(officer_read(document, &officer, err));
    return check_signers(document, trust, &officer, err);
}
