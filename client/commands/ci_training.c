/* The pipelines that `sijil ci init --train` prints: they ask for a training run by the token of the CI system, wait for its end, and pull what it made. */
#include "client/commands/ci_priv.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Each command is one line of a POSIX shell with -e, without ' and \, so that it is the same text in YAML, Groovy and a test (tests/scenario/ci_training.py).
 * The registry's token lives for minutes and a run for hours: when it has ended, the command that waits ends with 4, and the job logs in again. A job that
 * may not see the run right after its login ends with the failure of that command.
 */
#define ASK  "sijil run start @HOST@ @PROJECT@ @FILE@ --json > asked.json"
#define SHOW "sijil run show @HOST@ @PROJECT@ $(jq -r .id asked.json)"
#define WAIT(login)                                                                                                     \
    "while :; do " login "; " SHOW " --json > run.json; code=0; " SHOW " --follow || code=$?; if [ $code != 4 ]; then " \
    "break; fi; done; if [ $code != 0 ]; then exit $code; fi"
#define READ_AGAIN(login) login "; " SHOW " --json > run.json"
/* Through a file: sh has no pipefail, so a pipe from a jq that fails would pull nothing, and the job would succeed. */
#define PULL                                                                                          \
    "jq -r \".outputs[] | [.name, .repository, .digest] | @tsv\" run.json > outputs.tsv; "            \
    "while read -r name repository digest; do sijil pull @HOST@/$repository@$digest --output pulled-" \
    "$name; done < outputs.tsv"

#define LOGIN_GITHUB                                                                                                   \
    "curl -sSf -H \"Authorization: Bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN\" "                                          \
    "\"$ACTIONS_ID_TOKEN_REQUEST_URL&audience=https://@HOST@\" | jq -r .value | sijil ci login @HOST@ @REPOSITORIES@ " \
    "--administration"
#define LOGIN_VARIABLE "printf %s \"$SIJIL_ID_TOKEN\" | sijil ci login @HOST@ @REPOSITORIES@ --administration"
#define LOGIN_FILE     "sijil ci login @HOST@ @REPOSITORIES@ --administration < /var/run/sijil/token"

static const char github[] =
    "# .github/workflows/train.yml: trains by @FILE@ at @HOST@. Rule: sijil ci init github @HOST@ @REPOSITORIES@ --train --rule\n"
    "# The runner or its image needs sijil (package sijil-client).\n"
    "name: train\n"
    "on:\n"
    "  push:\n"
    "    branches: [main]\n"
    "permissions:\n"
    "  contents: read\n"
    "  id-token: write\n"
    "jobs:\n"
    "  train:\n"
    "    runs-on: ubuntu-latest\n"
    "    defaults:\n"
    "      run:\n"
    "        shell: bash\n"
    "    steps:\n"
    "      - uses: actions/checkout@v4\n"
    "      - name: log in\n"
    "        run: |\n"
    "          " LOGIN_GITHUB "\n"
    "      - name: ask\n"
    "        run: |\n"
    "          " ASK "\n"
    "      - name: wait\n"
    "        run: |\n"
    "          " WAIT(LOGIN_GITHUB) "\n"
                                    "      - name: look\n"
                                    "        run: |\n"
                                    "          " READ_AGAIN(LOGIN_GITHUB) "\n"
                                                                          "      - name: pull\n"
                                                                          "        run: |\n"
                                                                          "          " PULL "\n";
static const char gitlab[] =
    "# .gitlab-ci.yml: trains by @FILE@ at @HOST@. Rule: sijil ci init gitlab @HOST@ @REPOSITORIES@ --train --rule\n"
    "# The runner or its image needs sijil (package sijil-client).\n"
    "train:\n"
    "  rules:\n"
    "    - if: $CI_COMMIT_REF_PROTECTED == \"true\"\n"
    "  id_tokens:\n"
    "    SIJIL_ID_TOKEN:\n"
    "      aud: https://@HOST@\n"
    "  script:\n"
    "    - |\n"
    "      " LOGIN_VARIABLE "\n"
    "    - |\n"
    "      " ASK "\n"
    "    - |\n"
    "      " WAIT(LOGIN_VARIABLE) "\n"
                                  "    - |\n"
                                  "      " READ_AGAIN(LOGIN_VARIABLE) "\n"
                                                                      "    - |\n"
                                                                      "      " PULL "\n";
static const char jenkins[] =
    "// Jenkinsfile: trains by @FILE@ at @HOST@. Rule: sijil ci init jenkins @HOST@ @REPOSITORIES@ --train --rule\n"
    "// The runner or its image needs sijil (package sijil-client).\n"
    "// The credential \"sijil\" is an \"OpenID Connect id token\" of the plugin oidc-provider, with the audience https://@HOST@ and a\n"
    "// claim template jti=${BUILD_TAG}. It must live as long as the job waits.\n"
    "pipeline {\n"
    "  agent any\n"
    "  stages {\n"
    "    stage('train') {\n"
    "      steps {\n"
    "        withCredentials([string(credentialsId: 'sijil', variable: 'SIJIL_ID_TOKEN')]) {\n"
    "          sh '" LOGIN_VARIABLE "'\n"
    "          sh '" ASK "'\n"
    "          sh '" WAIT(LOGIN_VARIABLE) "'\n"
                                          "          sh '" READ_AGAIN(LOGIN_VARIABLE) "'\n"
                                                                                      "          sh '" PULL "'\n"
                                                                                      "        }\n"
                                                                                      "      }\n"
                                                                                      "    }\n"
                                                                                      "  }\n"
                                                                                      "}\n";
static const char kubernetes[] =
    "# kubectl create -f FILE: a Job that trains by @FILE@ at @HOST@. Rule: sijil ci init kubernetes @HOST@ @REPOSITORIES@ --train --rule\n"
    "apiVersion: batch/v1\n"
    "kind: Job\n"
    "metadata:\n"
    "  generateName: train-\n"
    "spec:\n"
    "  backoffLimit: 0\n"
    "  template:\n"
    "    spec:\n"
    "      serviceAccountName: train\n"
    "      automountServiceAccountToken: false\n"
    "      restartPolicy: Never\n"
    "      volumes:\n"
    "        - name: sijil\n"
    "          projected:\n"
    "            sources:\n"
    "              - serviceAccountToken:\n"
    "                  audience: https://@HOST@\n"
    "                  expirationSeconds: 600\n"
    "                  path: token\n"
    "      containers:\n"
    "        - name: train\n"
    "          image: IMAGE-WITH-SIJIL-JQ-AND-YOUR-SPECIFICATION\n"
    "          volumeMounts:\n"
    "            - name: sijil\n"
    "              mountPath: /var/run/sijil\n"
    "          command: [sh, -ec]\n"
    "          args:\n"
    "            - |\n"
    "              " LOGIN_FILE "\n"
    "              " ASK "\n"
    "              " WAIT(LOGIN_FILE) "\n"
                                      "              " READ_AGAIN(LOGIN_FILE) "\n"
                                                                              "              " PULL "\n";

/* GitHub makes a new token for each login; the other systems have one for the whole job, so it must count more than once. */
#define RULE(system, issuer, match, more, single)         \
    CI_RULE(system "-train", system, issuer, match, more, \
            "{\"role\": \"trainer\", \"on\": \"@PROJECT@\"}, {\"role\": \"consumer\", \"on\": \"@PROJECT@\"}@OTHERS@", single)

static const struct ci_pipeline pipelines[] = {
    {"github", github,
     RULE("github", "https://token.actions.githubusercontent.com",
          CI_ONE("/repository_id", "ID-OF-THE-REPOSITORY") ",\n" CI_ONE("/repository_owner_id", "ID-OF-ITS-OWNER") ",\n" CI_ONE(
              "/ref", "refs/heads/main") ",\n" CI_ONE("/event_name", "push"),
          "", "true")},
    {"gitlab", gitlab,
     RULE("gitlab", "https://gitlab.com",
          CI_ONE("/project_id", "ID-OF-THE-PROJECT") ",\n" CI_ONE("/ref", "main") ",\n" CI_ONE(
              "/ref_type", "branch") ",\n" CI_ONE("/ref_protected", "true"),
          "", "false")},
    {"jenkins", jenkins,
     RULE("jenkins", "https://JENKINS/oidc", CI_ONE("/sub", "https://JENKINS/job/train/"), "  \"immutable\": [\"/sub\"],\n",
          "false")},
    {"kubernetes", kubernetes,
     RULE("kubernetes", "https://ISSUER-OF-THE-CLUSTER",
          CI_ONE("/kubernetes.io/serviceaccount/uid",
                 "UID-OF-THE-SERVICE-ACCOUNT") ",\n" CI_ONE("/sub", "system:serviceaccount:NAMESPACE:train"),
          "", "false")},
};
const struct ci_pipelines ci_training = {pipelines, COUNT(pipelines)};
