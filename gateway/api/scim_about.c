/* What /scim/v2 says about itself (RFC 7643, 5 to 7): the same for everybody, without a credential. */
#include <string.h>

#include "authz/authenticate.h"
#include "gateway/api/scim_priv.h"

#define TEXT(name, required, exact, changes, unique, description)                                                           \
    "{\"name\":\"" name "\",\"type\":\"string\",\"multiValued\":false,\"required\":" required ",\"caseExact\":" exact       \
    ",\"mutability\":\"" changes "\",\"returned\":\"default\",\"uniqueness\":\"" unique "\",\"description\":\"" description \
    "\"}"
#define EXTERNAL_ID(required, description) TEXT("externalId", required, "true", "immutable", "none", description)

static const char *const resource_types[] = {
    "{\"schemas\":[\"urn:ietf:params:scim:schemas:core:2.0:ResourceType\"],\"id\":\"User\",\"name\":\"User\",\"endpoint\":\"/Users\","
    "\"description\":\"a person\",\"schema\":\"" SCIM_USER_URN "\",\"schemaExtensions\":[]}",
    "{\"schemas\":[\"urn:ietf:params:scim:schemas:core:2.0:ResourceType\"],\"id\":\"Group\",\"name\":\"Group\",\"endpoint\":\"/Groups\","
    "\"description\":\"a group of persons\",\"schema\":\"" SCIM_GROUP_URN "\",\"schemaExtensions\":[]}"};

static const char *const schemas[] = {
    "{\"schemas\":[\"urn:ietf:params:scim:schemas:core:2.0:Schema\"],\"id\":\"" SCIM_USER_URN
    "\",\"name\":\"User\",\"description\":\"a person\","
    "\"attributes\":[" TEXT("userName", "true", "false", "readWrite", "server", "what the person is called at the issuer") "," TEXT(
        "displayName", "false", "true", "readWrite", "none",
        "the name for people") "," EXTERNAL_ID("true",
                                               "the value of the claim that the document of the service names") ","
                                                                                                                "{\"name\":\"active\",\"type\":\"boolean\",\"multiValued\":false,\"required\":false,\"mutability\":\"readWrite\",\"returned\":\"default\","
                                                                                                                "\"description\":\"false ends all that the person does here\"}]}",
    "{\"schemas\":[\"urn:ietf:params:scim:schemas:core:2.0:Schema\"],\"id\":\"" SCIM_GROUP_URN
    "\",\"name\":\"Group\",\"description\":\"a group of "
    "persons\",\"attributes\":[" TEXT("displayName", "true", "false", "readWrite", "none", "the name for people") "," EXTERNAL_ID(
        "false",
        "the id at the issuer, to which documents may give roles") ","
                                                                   "{\"name\":\"members\",\"type\":\"complex\",\"multiValued\":true,\"required\":false,\"mutability\":\"readWrite\",\"returned\":\"default\","
                                                                   "\"description\":\"at most 10000 persons\",\"subAttributes\":[" TEXT(
                                                                       "value", "true", "true", "immutable", "none",
                                                                       "the id of a User") ","
                                                                                           "{\"name\":\"$ref\",\"type\":\"reference\",\"multiValued\":false,\"required\":false,\"caseExact\":true,\"referenceTypes\":[\"User\"],"
                                                                                           "\"mutability\":\"immutable\",\"returned\":\"default\",\"uniqueness\":\"none\",\"description\":\"its URL\"},"
                                                                                           "{\"name\":\"type\",\"type\":\"string\",\"multiValued\":false,\"required\":false,\"caseExact\":true,\"canonicalValues\":[\"User\"],"
                                                                                           "\"mutability\":\"immutable\",\"returned\":\"default\",\"uniqueness\":\"none\",\"description\":\"User\"}]}]}"};

static const char configuration[] =
    "{\"schemas\":[\"urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig\"],\"patch\":{\"supported\":true},"
    "\"bulk\":{\"supported\":false,\"maxOperations\":0,\"maxPayloadSize\":0},\"filter\":{\"supported\":true,\"maxResults\":200},"
    "\"changePassword\":{\"supported\":false},\"sort\":{\"supported\":false},\"etag\":{\"supported\":true},\"authenticationSchemes\":["
    "{\"type\":\"oauthbearertoken\",\"name\":\"OAuth Bearer Token\",\"description\":\"a token from /token for a robot, or name:secret of the robot in "
    "base64\",\"specUri\":\"https://www.rfc-editor.org/info/rfc6750\"},"
    "{\"type\":\"httpbasic\",\"name\":\"HTTP Basic\",\"description\":\"name and secret of the robot\",\"specUri\":"
    "\"https://www.rfc-editor.org/info/rfc7617\"}]}";

SCHEMA_WITH(SCHEMA_IS_OPEN, scim_about, "a description (RFC 7643, 5 to 7)", HAS_ANY("schemas", REQUIRED, "what it is"))

/* ---- answers ---- */

static struct result read_text(const struct request *request, const char *text, const char *type, const char *place,
                               json_t **value_out, struct error *err)
{
    OWNED_JSON value = json_loads(text, 0, NULL);
    struct buffer OWNED_BUFFER location = BUFFER(512);

    TRY(buffer_format(&location, err, "%s" SCIM_PATH "/%s", authenticator_issuer(request->gateway->authenticator), place));
    const char *id = json_text_of(value, "id");
    if (id != NULL) TRY(buffer_format(&location, err, "/%s", id));
    if (value == NULL ||
        json_object_set_new(value, "meta", json_pack("{s:s, s:s}", "resourceType", type, "location", buffer_text(&location))) !=
            0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a description");
    *value_out = GIVE(value);
    return SUCCESS;
}

struct described {
    const char *const *texts;
    size_t count;
    const char *type, *place;
};
static const struct described types_described = {resource_types, sizeof resource_types / sizeof resource_types[0], "ResourceType",
                                                 "ResourceTypes"};
static const struct described schemas_described = {schemas, sizeof schemas / sizeof schemas[0], "Schema", "Schemas"};

static struct result answer_all(struct request *request, const struct described *all, struct error *err)
{
    const struct scim_page page = {.first = 0, .limit = all->count};
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < all->count; i++) {
        OWNED_JSON each = NULL;
        TRY(read_text(request, all->texts[i], all->type, all->place, &each, err));
        if (json_array_append(list, each) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a description");
    }
    return scim_answer_list(request, &page, (int64_t)all->count, json_incref(list), err);
}

static struct result answer_one(struct request *request, const struct described *all, struct error *err)
{
    for (size_t i = 0; i < all->count; i++) {
        OWNED_JSON each = NULL;
        TRY(read_text(request, all->texts[i], all->type, all->place, &each, err));
        if (strcmp(json_text_of(each, "id"), request->reference) == 0) return scim_answer_json(request, 200, each, err);
    }
    response_unknown(request);
    return SUCCESS;
}

static struct result configure(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = NULL;

    (void)pg;
    TRY(read_text(request, configuration, "ServiceProviderConfig", "ServiceProviderConfig", &value, err));
    return scim_answer_json(request, 200, value, err);
}

static struct result list_types(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return answer_all(request, &types_described, err);
}

static struct result show_type(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return answer_one(request, &types_described, err);
}

static struct result list_schemas(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return answer_all(request, &schemas_described, err);
}

static struct result show_schema(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return answer_one(request, &schemas_described, err);
}

const struct handler handler_scim_configuration = {.handle = configure};
const struct handler handler_scim_types = {.handle = list_types};
const struct handler handler_scim_type = {.handle = show_type};
const struct handler handler_scim_schemas = {.handle = list_schemas};
const struct handler handler_scim_schema = {.handle = show_schema};
