package main

// A small cluster DNS: Services, headless endpoints, SRV-less; names outside of cluster.local only from hosts:.

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

type dnsServer struct {
	hosts    map[string]string
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
}

func newDNS(hosts map[string]string, s coreinformers.ServiceInformer, e discoveryinformers.EndpointSliceInformer) (*dnsServer, error) {
	s.Informer() // register with the factory
	e.Informer()
	return &dnsServer{hosts: hosts, services: s.Lister(), slices: e.Lister()}, nil
}

func (d *dnsServer) start() error {
	for _, ip := range families(nodeIP4, nodeIP6) {
		addr := net.JoinHostPort(ip, "53")
		pc, err := net.ListenPacket("udp", addr)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		for _, s := range []*dns.Server{{PacketConn: pc, Handler: d}, {Listener: l, Handler: d}} {
			go func() { fmt.Fprintln(os.Stderr, "kubelab: DNS:", s.ActivateAndServe()) }()
		}
	}
	return nil
}

// lookup returns the addresses of a name; found is false for NXDOMAIN.
func (d *dnsServer) lookup(name string) (ips []string, cname string, found bool) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if ip, ok := d.hosts[name]; ok {
		return []string{ip}, "", true
	}
	rest, ok := strings.CutSuffix(name, ".svc.cluster.local")
	if !ok {
		return nil, "", name == "cluster.local" || name == "svc.cluster.local"
	}
	part := strings.Split(rest, ".")
	host := ""
	switch len(part) {
	case 1:
		return nil, "", true // an empty non-terminal: the namespace
	case 2:
	case 3: // a pod's hostname below a headless Service
		host, part = part[0], part[1:]
	default:
		return nil, "", false
	}
	s, err := d.services.Services(part[1]).Get(part[0])
	if err != nil {
		return nil, "", false
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, s.Spec.ExternalName + ".", true
	}
	if s.Spec.ClusterIP != corev1.ClusterIPNone {
		return s.Spec.ClusterIPs, "", host == ""
	}
	eps, _ := d.slices.EndpointSlices(part[1]).List(labels.SelectorFromSet(labels.Set{"kubernetes.io/service-name": part[0]}))
	for _, slice := range eps {
		for _, e := range slice.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready || s.Spec.PublishNotReadyAddresses
			if ready && (host == "" || e.Hostname != nil && *e.Hostname == host) {
				ips = append(ips, e.Addresses...)
			}
		}
	}
	return ips, "", host == "" || len(ips) > 0
}

func (d *dnsServer) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	r := new(dns.Msg)
	r.SetReply(q)
	r.Authoritative = true
	if len(q.Question) == 1 {
		question := q.Question[0]
		hdr := func(t uint16) dns.RR_Header {
			return dns.RR_Header{Name: question.Name, Rrtype: t, Class: dns.ClassINET, Ttl: 5}
		}
		ips, cname, found := d.lookup(question.Name)
		if cname != "" {
			r.Answer = append(r.Answer, &dns.CNAME{Hdr: hdr(dns.TypeCNAME), Target: cname})
			ips, _, _ = d.lookup(cname)
		}
		slices.Sort(ips)
		for _, ip := range slices.Compact(ips) {
			switch a := net.ParseIP(ip); {
			case a == nil:
			case a.To4() != nil && question.Qtype == dns.TypeA:
				r.Answer = append(r.Answer, &dns.A{Hdr: hdr(dns.TypeA), A: a})
			case a.To4() == nil && question.Qtype == dns.TypeAAAA:
				r.Answer = append(r.Answer, &dns.AAAA{Hdr: hdr(dns.TypeAAAA), AAAA: a})
			}
		}
		if !found {
			r.Rcode = dns.RcodeNameError
		}
		// Negative answers carry an SOA, so that resolvers cache them no longer than the positive ones.
		if len(r.Answer) == 0 {
			r.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: "cluster.local.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 5},
				Ns: "ns.dns.cluster.local.", Mbox: "hostmaster.cluster.local.", Serial: 1, Refresh: 5, Retry: 5, Expire: 5, Minttl: 5}}
		}
	}
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
		size := dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = int(o.UDPSize())
		}
		r.Truncate(size)
	}
	_ = w.WriteMsg(r)
}
