/*
 * How many tokens and judgements a core does: authz_bench [THREADS]. Each line: what, how many a second in all, and
 * how many in a second of CPU time, which a busy machine does not change.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "authz/authenticate.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/ecdsa.h"

/* Half of the bindings are of robots, five each; half are of subjects of issuers, two each, as a bank's groups give them. */
enum {
    ROUND_MS = 2000,
    TOKENS = 20000,
    ROBOTS = 10000,
    OF_ROBOT = 5,
    SUBJECTS = 25000,
    OF_SUBJECT = 2,
    ISSUERS = 1000,
    THREADS_MAX = 64
};
enum { BINDINGS = ROBOTS * OF_ROBOT + SUBJECTS * OF_SUBJECT };

#define ISSUER "https://a.example"
#define US     "https://reg.example"

static struct authenticator *authenticator;
static struct authz_snapshot *snapshot;
static char *headers[TOKENS]; /* all different, so that none is remembered at first */
static struct authz_robot robots[ROBOTS];
static struct authz_binding *bindings;
static struct issuer_record issuers[ISSUERS]; /* the first is the one of the tokens */
static struct resource place = {.kind = RESOURCE_REPOSITORY, .name = "acme/models/digits"};

static void must(struct result result, const struct error *err)
{
    if (result.ok) return;
    (void)fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static char *make_header(const struct ecdsa_key *key, const char *kid, int number)
{
    const long long now_s = clock_wall_ms() / 1000;
    struct buffer token = BUFFER(4096), payload = BUFFER(1024), header = BUFFER(256);
    uint8_t signature[ECDSA_JOSE_SIZE];
    struct error err = {0};

    must(buffer_add_text(&token, "Bearer ", &err), &err);
    must(buffer_format(&header, &err, "{\"alg\":\"ES256\",\"kid\":\"%s\"}", kid), &err);
    must(buffer_format(&payload, &err,
                       "{\"iss\":\"" ISSUER "\",\"sub\":\"ci\",\"aud\":\"" US "\",\"jti\":\"%d\",\"iat\":%lld,\"exp\":%lld}",
                       number, now_s, now_s + 3000),
         &err);
    must(text_base64(&token, BASE64_URL, buffer_bytes(&header), &err), &err);
    must(buffer_add_u8(&token, '.', &err), &err);
    must(text_base64(&token, BASE64_URL, buffer_bytes(&payload), &err), &err);
    must(ecdsa_sign_jose(key, (struct bytes){token.data + 7, token.length - 7}, signature, &err), &err);
    must(buffer_add_u8(&token, '.', &err), &err);
    must(text_base64(&token, BASE64_URL, (struct bytes){signature, sizeof signature}, &err), &err);
    buffer_done(&payload);
    buffer_done(&header);
    return (char *)token.data;
}

/* In another project, unless it is the one that allows: a check walks all that a principal has. */
static struct authz_binding *add_binding(size_t number, bool is_here)
{
    bindings[number] = (struct authz_binding){.id = uuid_random(),
                                              .role = ROLE_PUBLISHER,
                                              .scope = RESOURCE_PROJECT,
                                              .organisation = place.organisation,
                                              .project = is_here ? place.project : uuid_random()};
    return &bindings[number];
}

static void make_rights(void)
{
    size_t count = 0;

    bindings = memory_zeroed(BINDINGS, sizeof *bindings);
    if (bindings == NULL) abort();
    place.organisation = uuid_random();
    place.project = uuid_random();
    for (size_t i = 0; i < ROBOTS; i++) {
        robots[i] = (struct authz_robot){.id = uuid_random(), .enabled = true, .expires_ms = INT64_MAX};
        (void)snprintf(robots[i].name, sizeof robots[i].name, "robot$acme+r%zu", i);
        for (size_t k = 0; k < OF_ROBOT; k++) {
            struct authz_binding *binding = add_binding(count++, k + 1 == OF_ROBOT);
            binding->kind = PRINCIPAL_ROBOT;
            binding->robot = robots[i].id;
        }
    }
    for (size_t i = 0; i < SUBJECTS * OF_SUBJECT; i++) {
        struct authz_binding *binding = add_binding(count++, i % OF_SUBJECT != 0);
        binding->kind = PRINCIPAL_EXTERNAL;
        (void)snprintf(binding->issuer, sizeof binding->issuer, "%s", issuers[i / OF_SUBJECT % ISSUERS].url);
        (void)snprintf(binding->subject, sizeof binding->subject, "person-%zu", i / OF_SUBJECT);
    }
}

static void prepare(void)
{
    static struct ecdsa_key *key;
    static struct authz_directory *directory;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char kid[ECDSA_THUMBPRINT_SIZE];
    struct buffer jwks = BUFFER(4096);
    struct error err = {0};

    must(ecdsa_key_new(&key, &err), &err);
    ecdsa_key_public(key, point);
    ecdsa_thumbprint(point, kid);
    must(buffer_add_text(&jwks, "{\"keys\":[", &err), &err);
    must(ecdsa_jwk(point, &jwks, &err), &err);
    must(buffer_add_text(&jwks, "]}", &err), &err);
    for (size_t i = 0; i < ISSUERS; i++) {
        issuers[i] = (struct issuer_record){.id = uuid_random(),
                                            .audience = US,
                                            .algorithms = 1U << JOSE_ES256,
                                            .types = 1,
                                            .lifetime_max_s = 3600,
                                            .jwks = buffer_text(&jwks)};
        (void)snprintf(issuers[i].url, sizeof issuers[i].url, ISSUER "/%zu", i);
        if (i == 0) (void)snprintf(issuers[i].url, sizeof issuers[i].url, ISSUER);
    }
    make_rights();
    const struct authz_parts parts = {.robots = robots,
                                      .robot_count = ROBOTS,
                                      .bindings = bindings,
                                      .binding_count = BINDINGS,
                                      .issuers = issuers,
                                      .issuer_count = ISSUERS};
    const int64_t began = clock_monotonic_ms();
    must(authz_snapshot_build(&parts, &snapshot, &err), &err);
    printf("%-36s %9lld ms for %d bindings and %d issuers\n", "a snapshot from rows", (long long)(clock_monotonic_ms() - began),
           BINDINGS, ISSUERS);
    must(authz_directory_new(&directory, &err), &err);
    authz_directory_publish(directory, snapshot);
    const struct authenticator_options options = {
        .issuer = US, .service = "us", .token_kid = kid, .token_public = point, .directory = directory};
    must(authenticator_new(&options, &authenticator, &err), &err);
    for (int i = 0; i < TOKENS; i++) headers[i] = make_header(key, kid, i);
    buffer_done(&jwks);
}

/* One thread's share. */
struct share {
    pthread_t thread;
    bool (*once)(size_t number);
    size_t first, step, limit;
    size_t done;
};

static void *work(void *argument)
{
    struct share *share = argument;
    const int64_t end = clock_monotonic_ms() + ROUND_MS;

    for (size_t i = share->first; i < share->limit && ((share->done & 15) != 0 || clock_monotonic_ms() < end); i += share->step) {
        if (!share->once(i)) abort();
        share->done++;
    }
    return NULL;
}

static double cpu_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void measure(const char *what, bool (*once)(size_t number), size_t threads, size_t limit)
{
    struct share shares[THREADS_MAX];
    const int64_t began = clock_monotonic_ms();
    const double cpu_began = cpu_seconds();
    size_t done = 0;

    for (size_t i = 0; i < threads; i++) {
        shares[i] = (struct share){.once = once, .first = i, .step = threads, .limit = limit};
        if (pthread_create(&shares[i].thread, NULL, work, &shares[i]) != 0) abort();
    }
    for (size_t i = 0; i < threads; i++) {
        (void)pthread_join(shares[i].thread, NULL);
        done += shares[i].done;
    }
    printf("%-36s %9.0f /s with %zu threads, %9.0f /s of CPU time\n", what,
           (double)done * 1000 / (double)(clock_monotonic_ms() - began), threads, (double)done / (cpu_seconds() - cpu_began));
}

static bool try_token(size_t number)
{
    const struct credential credential = {
        .endpoint = CREDENTIAL_AT_ROUTE, .authorization = headers[number], .now_ms = clock_wall_ms()};
    struct authentication found;
    struct error err = {0};

    return authenticate(authenticator, &credential, &found, &err).ok && found.error == OAUTH_NONE;
}

static bool try_known(size_t number)
{
    return try_token(number % 64);
}

static bool try_judge(size_t number)
{
    const struct principal principal = {.kind = PRINCIPAL_ROBOT, .id = robots[number % ROBOTS].id};

    return authz_snapshot_authorize(snapshot, &principal, ACTION_UPLOAD_BEGIN, &place, 1).verdict == AUTHZ_ALLOWED;
}

/* A subject that has its roles by its groups. */
static bool try_subject(size_t number)
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};

    (void)snprintf(principal.issuer, sizeof principal.issuer, "%s", issuers[number % SUBJECTS % ISSUERS].url);
    (void)snprintf(principal.subject, sizeof principal.subject, "person-%zu", number % SUBJECTS);
    return authz_snapshot_authorize(snapshot, &principal, ACTION_UPLOAD_BEGIN, &place, 1).verdict == AUTHZ_ALLOWED;
}

int main(int argc, char **argv)
{
    uint64_t threads = 1;

    if (argc > 1 && (!text_to_u64(bytes_of_text(argv[1]), THREADS_MAX, &threads) || threads == 0)) return 2;
    prepare();
    measure("ES256 tokens, each new", try_token, threads, TOKENS);
    measure("ES256 tokens, signature remembered", try_known, threads, SIZE_MAX);
    measure("judgements of robots", try_judge, threads, SIZE_MAX);
    measure("judgements of subjects", try_subject, threads, SIZE_MAX);
    return 0;
}
