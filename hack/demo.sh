#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Shows what Weir does: four releases of an application on a local control plane. Run it with
# make demo, or with make demo KEEP=1 to leave the control plane running.
#
# Every command that is shown is run exactly as shown, and its real output follows. The lines
# that begin with expect check the results. The demo stops at the first result that is wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

main() {
	title 'Weir: releases of a Deployment, step by step'
	say 'The demo starts a control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler
and Weir. Nodes and pods are simulated; everything else is real. A line with a $ is a command that
is run as you see it.'
	wait_until 'the control plane is ready' bin/weir-cluster up -user=victor -user=maria "$dir"

	title '1. An application and its Rollout'
	say 'The application is a Deployment of 6 pods, a Service and an Ingress. These are their labels and
annotations before Weir knows them.'
	run 'kubectl create -f artifacts/examples/echoserver.yaml'
	wait_until '6 pods are ready' kubectl_wait deployment/echoserver --for=jsonpath='{.status.readyReplicas}'=6
	run "$show_metadata"
	settings_before=$(settings)
	network_before=$(network)
	say 'Its Rollout releases a new version to 20 % of the pods and requests, then to 50 %, then to all.'
	run 'kubectl create -f artifacts/examples/rollout.yaml'
	wait_until 'the Rollout is Healthy' healthy
	run 'kubectl get rollouts'
	say 'Two colleagues work with the Rollout: victor may only read, and maria is a release manager.'
	run 'kubectl create clusterrolebinding viewers --clusterrole=view --user=victor'
	run 'kubectl create clusterrolebinding managers --clusterrole=weir-release-manager --user=maria'

	title '2. Weir holds a new version'
	say 'A developer changes the application as usual. Weir pauses the Deployment in the same write.'
	run 'kubectl set image deployment/echoserver echoserver=example.com/echoserver:v2'
	run "kubectl get deployment echoserver -o jsonpath='paused: {.spec.paused}{\"\\n\"}'"
	expect 'true' paused
	wait_until 'step 1 waits' step_waits 1
	say 'Weir has released step 1: 2 of 6 pods run v2, and the canary Ingress sends them 20 %
of the requests.'
	run "$show_versions"
	expect $'1.10.2 4 4 4\nv2 2 2 2' pods
	run "kubectl get ingress echoserver-canary -o jsonpath='{.metadata.annotations}{\"\\n\"}'"
	expect '20' canary_weight
	run 'kubectl get services -l app=echoserver -o wide'
	run 'kubectl weir get rollouts-demo'
	run 'kubectl weir why rollouts-demo'
	expect '1 StepPaused' step

	title '3. Who may approve a step?'
	say 'An approval is a request of its own, promote, and needs a permission of its own. victor does not
have this permission.'
	refused victor 'kubectl weir promote rollouts-demo' forbidden rollouts/promote
	refused victor "kubectl create --raw $path/promote -f /dev/null" Forbidden victor rollouts/promote
	say 'maria has the permission. Any HTTP client can send the request. kubectl proxy adds her
credentials.'
	promote_by_http
	say 'The status records the decision and its author. Only the server can write this field.'
	run "$show_decisions"
	expect 'maria promote 1' decisions

	title '4. The release completes'
	wait_until 'step 2 waits' step_waits 2
	say 'Half of the pods run the new version. With --full, maria approves all remaining steps of this
release.'
	expect $'1.10.2 3 3 3\nv2 3 3 3' pods
	expect '50' canary_weight
	run_as maria "kubectl weir promote rollouts-demo --full --reason 'error rate is fine'"
	run 'kubectl weir wait rollouts-demo --for=healthy'
	wait_until 'the Rollout is Healthy' healthy
	run 'kubectl get rollouts,deployments'
	expect 'v2 6 6 6' pods

	title '5. A release is aborted'
	say 'The next version reaches step 1, and its error rate is too high.'
	run 'kubectl set image deployment/echoserver echoserver=example.com/echoserver:v3'
	wait_until 'step 1 waits' step_waits 1
	expect $'v2 4 4 4\nv3 2 2 2' pods
	run_as maria "kubectl weir abort rollouts-demo --reason 'error rate doubled'"
	wait_until 'the abort is complete' kubectl weir wait rollouts-demo --for=aborted
	say 'The stable version runs all its 6 pods again. The Service selects these pods, and the canary
Ingress is gone. Weir still holds the Deployment, so no pod of v3 is created.'
	run "$show_versions"
	expect 'v2 6 6 6' pods
	run 'kubectl get services,ingresses -o wide'
	expect '' canary_objects
	expect 'v2' served_versions
	expect 'true' paused
	run 'kubectl weir why rollouts-demo'
	run "$show_decisions"
	expect $'maria promote 1\nmaria promote 2\nmaria abort 1' decisions

	title '6. The last release, and what remains of it'
	say 'The repaired version starts again at step 1. The plan shows what the release will do.'
	run 'kubectl set image deployment/echoserver echoserver=example.com/echoserver:v4'
	wait_until 'step 1 waits' step_waits 1
	run 'kubectl weir plan rollouts-demo'
	say 'maria approves each step.'
	run_as maria 'kubectl weir promote rollouts-demo'
	wait_until 'step 2 waits' step_waits 2
	run_as maria 'kubectl weir promote rollouts-demo'
	wait_until 'the Rollout is Healthy' healthy
	run 'kubectl get rollouts,deployments'
	expect 'v4 6 6 6' pods
	run 'kubectl weir history rollouts-demo'
	say 'One label remains on the Deployment. Admission selects Deployments by this label when they change.
Weir removes the label when the Rollout is deleted. Everything else is as it was at the beginning.'
	run "$show_metadata"
	expect '{"app":"echoserver","rollouts.kruise.io/workload-type":"deployment"}' \
		kubectl get deployment echoserver -o jsonpath='{.metadata.labels}'
	expect '' leftover_keys
	expect "$settings_before" settings
	expect "$network_before" network
	expect '' canary_objects

	title 'The end'
	say "All results were checked. The demo took $SECONDS s."
}

# promote_by_http sends the verb promote as maria, with curl through kubectl proxy. Without curl
# it uses kubectl, which sends the same request.
promote_by_http() {
	if ! command -v curl >/dev/null; then
		run_as maria "kubectl create --raw $path/promote -f /dev/null"
		return
	fi
	show_command maria 'kubectl proxy --port=0 &'
	exec 3< <(KUBECONFIG=$(kubeconfig maria) exec kubectl proxy --port=0)
	proxy=$!
	local line
	read -r line <&3 || fail 'kubectl proxy ended at once'
	show_output "$line"
	export api=http://${line#Starting to serve on }$path
	show_command maria "api=$api"
	run_as maria "curl -s -o /dev/null -w '%{http_code}\n' -X POST \$api/promote"
	expect '201' echo "$output"
}

# Paths and kubectl commands of the demo.

path=/apis/rollouts.kruise.io/v1beta1/namespaces/default/rollouts/rollouts-demo

# The labels and annotations of all objects that Weir changes.
show_metadata="kubectl get deployment,service,ingress echoserver -o jsonpath='"
show_metadata+='{range .items[*]}{.kind} {.metadata.labels} {.metadata.annotations}{"\n"}{end}'\'

show_versions='kubectl get rs -o custom-columns=NAME:.metadata.name,PODS:.spec.replicas,'
show_versions+='READY:.status.readyReplicas,IMAGE:.spec.template.spec.containers[0].image'

show_decisions="kubectl get rollout rollouts-demo -o jsonpath='"
show_decisions+='{range .status.decisions[*]}{.time} {.user}: {.verb} of step {.step} {.reason}{"\n"}{end}'\'

# Functions that read the results to check.

# pods prints the desired, existing and ready pods of each version that has any.
pods() {
	kubectl get replicasets -o jsonpath='{range .items[*]}{.spec.template.spec.containers[0].image} {.spec.replicas} {.status.replicas} {.status.readyReplicas}{"\n"}{end}' |
		sed 's/^[^ ]*://' | awk '$2 + $3 > 0' | sort
}

paused() {
	kubectl get deployment echoserver -o jsonpath='{.spec.paused}'
}

step() {
	kubectl get rollout rollouts-demo -o jsonpath='{.status.currentStepIndex} {.status.currentStepState}'
}

# healthy waits until the release is over.
healthy() { kubectl_wait rollout/rollouts-demo --for=jsonpath='{.status.phase}'=Healthy; }

# step_waits waits until the pods and the traffic of a step are ready, and the step is paused.
step_waits() {
	kubectl weir wait rollouts-demo --for="step=$1" &&
		kubectl_wait rollout/rollouts-demo --for=jsonpath='{.status.currentStepState}'=StepPaused &&
		[[ $(step) == "$1 StepPaused" ]]
}

canary_weight() {
	kubectl get ingress echoserver-canary -o jsonpath='{.metadata.annotations.nginx\.ingress\.kubernetes\.io/canary-weight}'
}

# canary_objects prints the objects that Weir creates for the traffic of a release.
canary_objects() {
	kubectl get service,ingress echoserver-canary --ignore-not-found -o name
}

# served_versions prints the versions of the pods that the Service selects.
served_versions() {
	local selector
	selector=$(kubectl get service echoserver -o jsonpath='{.spec.selector}' | tr -d '{}"' | tr : =)
	kubectl get pods -l "$selector" -o jsonpath='{range .items[*]}{.spec.containers[0].image}{"\n"}{end}' | sed 's/.*://' | sort -u
}

decisions() {
	kubectl get rollout rollouts-demo -o jsonpath='{range .status.decisions[*]}{.user} {.verb} {.step}{"\n"}{end}'
}

# settings prints the spec of the Deployment without its template.
settings() {
	kubectl get deployment echoserver -o jsonpath='{.spec.replicas} {.spec.selector} {.spec.strategy} {.spec.paused} {.spec.minReadySeconds} {.spec.revisionHistoryLimit} {.spec.progressDeadlineSeconds}'
}

# network prints the Service, and the Ingress with its annotations.
network() {
	kubectl get service echoserver -o jsonpath='{.spec}'
	kubectl get ingress echoserver -o jsonpath='{.spec} {.metadata.annotations}'
}

# leftover_keys prints the annotations and labels of a release that are left on the Deployment or the
# Service. The label of the Deployment is checked apart.
leftover_keys() {
	kubectl get deployment,service echoserver -o jsonpath='{.items[*].metadata.annotations}{.items[1].metadata.labels}' |
		grep -o '"[^"]*kruise\.io[^"]*"' || true
}

# Functions that show, run and check commands.

# kubectl_wait is kubectl wait. Its deadline only ends a wait that hangs.
kubectl_wait() { kubectl wait --timeout=1h "$@"; }

# wait_until waits with a command, and prints how long it took.
wait_until() {
	local what=$1 began=$SECONDS
	shift
	"$@" >"$dir/wait.log" 2>&1 || fail "waiting until $what: $(cat "$dir/wait.log")"
	printf '%s... %s, after %d s%s\n' "$dim" "$what" $((SECONDS - began)) "$plain"
}

# run runs a command as the developer, who is the administrator of the cluster.
run() { run_as '' "$1"; }

# run_as runs a command as a person. The command must succeed.
run_as() {
	show_command "$1" "$2"
	execute "$1" "$2" || fail "this command should have succeeded: $2"
}

# refused runs a command that must fail, and whose output must contain the words.
refused() {
	local person=$1 command=$2 word
	shift 2
	show_command "$person" "$command"
	! execute "$person" "$command" || fail "this command should have been refused: $command"
	for word in "$@"; do
		[[ $output == *"$word"* ]] || fail "the message should contain $word: $output"
	done
}

# execute runs a command with the kubeconfig of a person, shows its output and keeps it in output.
execute() {
	local status=0
	output=$(KUBECONFIG=$(kubeconfig "$1") bash -c "$2" 2>&1) || status=$?
	show_output "$output"
	return "$status"
}

# expect fails unless a command prints a text.
expect() {
	local want=$1 got
	shift
	got=$("$@" 2>&1) || fail "$*: $got"
	[[ $got == "$want" ]] || fail "$* should print
$want
but prints
$got"
}

kubeconfig() { echo "$dir/${1:+user-$1.}kubeconfig"; }

title() { printf '\n%s== %s%s\n' "$bold" "$1" "$plain"; }

say() { printf '\n%s\n' "$1"; }

show_command() { printf '%s%s$ %s%s%s\n' "$green" "${1:+$1 }" "$plain$bold" "$2" "$plain"; }

show_output() { [[ ! $1 ]] || sed 's/^/  /; s/ *$//' <<<"$1"; }

fail() {
	printf '\ndemo: %s\n' "$1" >&2
	exit 1
}

# finish ends what the demo has started. After a failure it keeps the logs.
finish() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	[[ ! $proxy ]] || kill "$proxy" 2>/dev/null || true
	if [[ ${KEEP:-} ]] && ((status == 0)); then
		explain
	elif [[ ${KEEP:-} ]] && ((status != interrupted)); then
		echo "The control plane is still running. To end it: make cluster-down DIR=$dir" >&2
	else
		bin/weir-cluster down "$dir" >/dev/null || true
		if ((status == 0 || status == interrupted)); then
			rm -rf "$dir"
		else
			echo "The logs of the control plane are in $dir" >&2
		fi
	fi
	exit "$status"
}

# explain prints how to use the control plane that is left running.
explain() {
	say 'The control plane is still running. To use it:'
	show_output ". $dir/env
kubectl weir get rollouts-demo -w
kubectl set image deployment/echoserver echoserver=example.com/echoserver:v5"
	say 'To be victor, who may only read, or maria, who may release:'
	show_output "export KUBECONFIG=$(kubeconfig victor)
export KUBECONFIG=$(kubeconfig maria)"
	say 'To see the dashboard in a browser:'
	show_output 'kubectl proxy
http://127.0.0.1:8001/apis/rollouts.kruise.io/v1beta1/ui/'
	say 'To end the control plane:'
	show_output "make cluster-down DIR=$dir"
}

bold='' dim='' green='' plain=''
if [[ -t 1 && ! ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
	bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' plain=$'\e[0m'
fi
proxy='' output='' interrupted=130
dir=$(mktemp -d "${TMPDIR:-/tmp}/weir-demo-XXXXXX")
trap finish EXIT
trap 'exit "$interrupted"' INT TERM
export KUBECONFIG=$dir/kubeconfig PATH=$PWD/bin/kube:$PWD/bin:$PATH
main
